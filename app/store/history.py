"""What happened to a correction: rows are only ever added, in the transaction of what they tell."""

from __future__ import annotations

from app.domain.model import Actor
from app.store.engine import Db

_ADD = """
INSERT INTO correction_history (tenant_id, correction_id, at, kind, by_kind, by_id, from_value, to_value, version, how,
                                test_run_id, reason)
VALUES (%(tenant)s, %(correction)s, clock_timestamp(), %(kind)s, %(by_kind)s, %(by_id)s, %(from)s, %(to)s, %(version)s,
        %(how)s, %(test_run)s, %(reason)s)
"""


def add(
    db: Db,
    tenant_id: str,
    correction_id: str,
    kind: str,
    *,
    by: Actor | None = None,
    from_value: str | None = None,
    to_value: str | None = None,
    version: str | None = None,
    how: str | None = None,
    test_run_id: str | None = None,
    reason: str | None = None,
) -> None:
    """Add one row to the history of a correction."""
    db.run(
        _ADD,
        {
            "tenant": tenant_id, "correction": correction_id, "kind": kind, "by_kind": by.kind if by else None,
            "by_id": by.id if by else None, "from": from_value, "to": to_value, "version": version, "how": how,
            "test_run": test_run_id, "reason": reason,
        },
    )  # fmt: skip


SHOWN = """
concat('{"at":"', wire_time(h.at), '","kind":"', h.kind, '"',
       ',"by":' || wire_principal(h.by_kind, h.by_id),
       ',"from":' || to_json(h.from_value)::text,
       ',"to":' || to_json(h.to_value)::text,
       ',"version":' || to_json(h.version)::text,
       ',"how":' || to_json(h.how)::text,
       ',"testRunId":' || to_json(h.test_run_id)::text,
       ',"reason":' || to_json(h.reason)::text, '}')
"""
"""The JSON, as the wire shows it, of a row ``h``."""

_SHOW = f"""
SELECT coalesce(string_agg({SHOWN}, ',' ORDER BY h.id), '')
  FROM correction_history h
 WHERE h.tenant_id = %s AND h.correction_id = %s
"""


def show(db: Db, tenant_id: str, correction_id: str) -> str:
    """All that happened to a correction, oldest first: JSON objects as the wire shows them, joined by commas."""
    return str(db.value(_SHOW, (tenant_id, correction_id)))

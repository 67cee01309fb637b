"""The inbox of each principal."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from app.domain import times
from app.domain.model import Principal
from app.store.conditions import Conditions, Position
from app.store.engine import Db, Row
from app.store.ids import new_id


@dataclass(frozen=True, slots=True)
class Notice:
    """Word for one principal. ``key`` tells apart the times that ``type`` happened to ``about``: each is told once."""

    to: Principal
    type: str
    about: str
    key: str
    data: str

    @property
    def event_key(self) -> bytes:
        said = json.dumps([self.to.kind, self.to.id, self.type, self.about, self.key])
        return hashlib.sha256(said.encode()).digest()


_ADD = """
INSERT INTO notifications (tenant_id, id, principal_kind, principal_id, type, at, event_key, data)
SELECT %(tenant)s, n.id, n.kind, n.principal, n.type, date_trunc('milliseconds', clock_timestamp()), n.key, n.data
  FROM unnest(%(ids)s::text[], %(kinds)s::text[], %(principals)s::text[], %(types)s::text[], %(keys)s::bytea[],
              %(data)s::text[]) AS n(id, kind, principal, type, key, data)
    ON CONFLICT (tenant_id, event_key) DO NOTHING
"""


def add(db: Db, tenant_id: str, notices: Sequence[Notice]) -> None:
    """Put ``notices`` into their inboxes; what was told before isn't told again."""
    if notices:
        values = {
            "tenant": tenant_id, "ids": [new_id() for _ in notices], "kinds": [n.to.kind for n in notices],
            "principals": [n.to.id for n in notices], "types": [n.type for n in notices],
            "keys": [n.event_key for n in notices], "data": [n.data for n in notices],
        }  # fmt: skip
        db.run(_ADD, values)


_SUMMARIES = """
SELECT id, updated_at, project_id, run_id, subject_kind, subject_id, subject_version, status, sorted_to, superseded_by,
       fixed_version, fixed_how, fixed_by_kind, fixed_by_id, fixed_at,
       reopened_version, reopened_how, reopened_by_kind, reopened_by_id, reopened_at
  FROM corrections WHERE tenant_id = %(tenant)s AND id = ANY(%(ids)s)
"""


@dataclass(frozen=True, slots=True)
class Summary:
    """What word of a correction says of it: ids and states, nothing that anybody wrote."""

    updated_at: datetime
    project_id: str
    data: dict[str, Any]


def summaries(db: Db, tenant_id: str, correction_ids: Sequence[str]) -> dict[str, Summary]:
    """What word of each correction says of it."""
    rows = db.rows(_SUMMARIES, {"tenant": tenant_id, "ids": list(correction_ids)})
    return {row[0]: _summary(row) for row in rows}


def _summary(row: Row) -> Summary:
    correction_id, updated_at, project, run, kind, subject, version, status, sorted_to, superseded_by = row[:10]
    said = {
        "correctionId": correction_id, "projectId": project, "runId": run,
        "subject": {"kind": kind, "id": subject, "version": version}, "status": status, "sortedTo": sorted_to,
        "supersededBy": superseded_by, "fixedIn": _stamp(*row[10:15]), "reopenedIn": _stamp(*row[15:20]),
    }  # fmt: skip
    return Summary(updated_at, project, _present(said))


def _stamp(
    version: str | None, how: str | None, by_kind: str | None, by_id: str | None, at: datetime | None
) -> dict[str, Any] | None:
    if at is None:
        return None
    by = {"kind": by_kind, "id": by_id} if by_kind else None
    return _present({"version": version, "how": how, "by": by, "at": times.wire(at)})


def _present(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


_OWNERS = """
SELECT DISTINCT c.id, o.owner_kind, o.owner_id
  FROM corrections c
  JOIN subject_owners o ON o.tenant_id = c.tenant_id AND o.kind = c.subject_kind AND o.id = c.subject_id
 WHERE c.tenant_id = %(tenant)s AND c.id = ANY(%(ids)s)
"""


def owners(db: Db, tenant_id: str, correction_ids: Sequence[str]) -> list[tuple[str, Principal]]:
    """Each correction with each owner of its subject, once."""
    rows = db.rows(_OWNERS, {"tenant": tenant_id, "ids": list(correction_ids)})
    return [(correction, Principal(kind, owner)) for correction, kind, owner in rows]


_ROW = """concat('{"id":"', id, '","type":"', type, '","at":"', wire_time(at), '"',
       ',"readAt":"' || wire_time(read_at) || '"', ',"data":', data, '}')"""

_NEWEST = """
SELECT at, id, {row} FROM notifications
 WHERE tenant_id = %(tenant)s AND principal_kind = %(kind)s AND principal_id = %(principal)s AND {conditions}
 ORDER BY at DESC, id DESC LIMIT %(count)s
"""


def newest(
    db: Db, tenant_id: str, inbox: Principal, unread: bool | None, count: int, position: Position | None
) -> list[tuple[datetime, str, str]]:
    """Up to ``count`` notices to ``inbox`` after ``position``, newest first: each row's time, id and JSON.

    ``unread``: only those that are (or, if false, that aren't).
    """
    conditions = Conditions({"tenant": tenant_id, "kind": inbox.kind, "principal": inbox.id, "count": count})
    if unread is not None:
        conditions.add(f"read_at IS {'' if unread else 'NOT '}NULL")
    conditions.after(position, "at", "id")
    return db.rows(_NEWEST.format(row=_ROW, conditions=conditions.sql), conditions.params)


_READ = f"""
UPDATE notifications SET read_at = coalesce(read_at, date_trunc('milliseconds', clock_timestamp()))
 WHERE tenant_id = %(tenant)s AND principal_kind = %(kind)s AND principal_id = %(principal)s AND id = %(id)s
RETURNING {_ROW}
"""


def mark_read(db: Db, tenant_id: str, inbox: Principal, notification_id: str) -> str | None:
    """Mark the notice read, the first time; its JSON, or ``None`` if ``inbox`` holds none of that id."""
    values = {"tenant": tenant_id, "kind": inbox.kind, "principal": inbox.id, "id": notification_id}
    shown: str | None = db.value(_READ, values)
    return shown

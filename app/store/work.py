"""Work items: what waits, in which queue, for whom."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from app.domain.model import Principal, Queue
from app.domain.routing import EndedReason, Place
from app.store.engine import Db

UNENDED = "state IN ('ready', 'leased', 'parked')"

_LOCK_PLACES = """
SELECT id, status, sorted_to, superseded_by IS NOT NULL
  FROM corrections WHERE tenant_id = %(tenant)s AND id = ANY(%(ids)s) ORDER BY id FOR SHARE
"""


def lock_places(db: Db, tenant_id: str, correction_ids: Sequence[str]) -> dict[str, Place]:
    """Where the corrections stand; they stay so until this transaction ends."""
    rows = db.rows(_LOCK_PLACES, {"tenant": tenant_id, "ids": list(correction_ids)})
    return {row_id: Place(status, sorted_to, superseded) for row_id, status, sorted_to, superseded in rows}


_UNENDED = f"""
SELECT correction_id, id, queue FROM work_items
 WHERE tenant_id = %(tenant)s AND correction_id = ANY(%(ids)s) AND {UNENDED}
"""


def unended(db: Db, tenant_id: str, correction_ids: Sequence[str]) -> dict[str, tuple[str, Queue]]:
    """The unended item of each correction that has one: its id and queue."""
    rows = db.rows(_UNENDED, {"tenant": tenant_id, "ids": list(correction_ids)})
    return {correction_id: (item_id, queue) for correction_id, item_id, queue in rows}


_WITHDRAW = f"""
UPDATE work_items w SET state = 'withdrawn', ended_reason = e.reason, ended_at = clock_timestamp()
  FROM unnest(%(items)s::text[], %(reasons)s::text[]) AS e(id, reason)
 WHERE w.tenant_id = %(tenant)s AND w.id = e.id AND w.{UNENDED}
"""


def withdraw(db: Db, tenant_id: str, reasons: Mapping[str, EndedReason]) -> None:
    """End the items (by id) for the reason given; a holder's lease token stays, so that it can be told why."""
    values = {"tenant": tenant_id, "items": list(reasons), "reasons": list(reasons.values())}
    db.run(_WITHDRAW, values)


_PUT_IN = f"""
INSERT INTO work_items (tenant_id, id, correction_id, project_id, subject_kind, subject_id, queue, state,
                        correction_created_at, ready_since, available_at, created_at)
SELECT c.tenant_id, n.id, c.id, c.project_id, c.subject_kind, c.subject_id, n.queue, 'ready',
       c.created_at, t.now, t.now, t.now
  FROM unnest(%(items)s::text[], %(corrections)s::text[], %(queues)s::text[]) AS n(id, correction_id, queue)
  JOIN corrections c ON c.tenant_id = %(tenant)s AND c.id = n.correction_id,
       (SELECT date_trunc('milliseconds', clock_timestamp()) AS now) t
    ON CONFLICT (tenant_id, correction_id) WHERE {UNENDED} DO NOTHING
RETURNING correction_id
"""


def put_in(db: Db, tenant_id: str, items: Sequence[tuple[str, str, Queue]]) -> list[str]:
    """Add ``(item id, correction id, queue)``; the corrections that had no unended item and have this one now."""
    values = {
        "tenant": tenant_id, "items": [i[0] for i in items], "corrections": [i[1] for i in items],
        "queues": [i[2] for i in items],
    }  # fmt: skip
    return [row[0] for row in db.rows(_PUT_IN, values)]


_HOLDERS = """
SELECT DISTINCT correction_id, leased_by_kind, leased_by_id FROM work_items
 WHERE tenant_id = %(tenant)s AND correction_id = ANY(%(ids)s) AND state = 'withdrawn' AND ended_reason = %(reason)s
   AND leased_by_kind IS NOT NULL AND lease_expires_at > ended_at
"""


def holders_at_end(
    db: Db, tenant_id: str, correction_ids: Sequence[str], reason: EndedReason
) -> list[tuple[str, Principal]]:
    """Who held a lease on the item of each correction when it was withdrawn for ``reason``."""
    rows = db.rows(_HOLDERS, {"tenant": tenant_id, "ids": list(correction_ids), "reason": reason})
    return [(correction_id, Principal(kind, holder)) for correction_id, kind, holder in rows]

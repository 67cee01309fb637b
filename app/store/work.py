"""Work items: what waits, in which queue, for whom."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from app.domain import times
from app.domain.model import Principal, Queue
from app.domain.permission import Reach
from app.domain.routing import EndedReason, Place
from app.store.conditions import Conditions, Position
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


QUEUES: tuple[Queue, ...] = ("improve", "developer", "owner")

STATES = (
    ("ready", "ready", False),
    ("ready", "leased", True),
    ("leased", "leased", False),
    ("parked", "parked", False),
    ("parked", "leased", True),
    ("done", "done", False),
    ("withdrawn", "withdrawn", False),
)
"""A state as it is shown, as it is stored, and whether its lease has expired: what nobody holds any more is ready, or
parked if that was the last attempt, also before it is stored so."""

_EXPIRED = "w.state = 'leased' AND w.lease_expires_at <= now()"

_SHOWN = f"""
CASE WHEN {_EXPIRED} THEN CASE WHEN w.attempt >= %(max)s THEN 'parked' ELSE 'ready' END ELSE w.state END
"""

_STATE = f"w.state = s.stored AND ({_EXPIRED}) = s.expired AND {_SHOWN.strip()} = s.shown"

_PAGE = """
SELECT x.*
  FROM unnest(%(queues)s::text[]) AS q(queue)
 CROSS JOIN unnest(%(shown)s::text[], %(stored)s::text[], %(expired)s::bool[]) AS s(shown, stored, expired)
 {projects}
 CROSS JOIN LATERAL (
       SELECT w.created_at, w.id, w.queue, s.shown, w.attempt, w.project_id, w.correction_id,
              CASE WHEN s.expired THEN w.lease_expires_at ELSE w.ready_since END, w.lease_expires_at
         FROM work_items w
        WHERE w.tenant_id = %(tenant)s AND w.queue = q.queue AND {state} AND {conditions}
        ORDER BY w.created_at DESC, w.id DESC LIMIT %(count)s) x
 ORDER BY x.created_at DESC, x.id DESC LIMIT %(count)s
"""


@dataclass(frozen=True, slots=True)
class Item:
    """A work item as callers see it."""

    created_at: datetime
    id: str
    queue: Queue
    state: str
    attempt: int
    project_id: str
    correction_id: str
    ready_since: datetime
    lease_expires_at: datetime | None

    def shown(self) -> dict[str, Any]:
        """The row on the wire."""
        row = {
            "workItemId": self.id, "queue": self.queue, "state": self.state, "attempt": self.attempt,
            "projectId": self.project_id, "correctionId": self.correction_id,
            "readySince": times.wire(self.ready_since),
        }  # fmt: skip
        if self.state == "leased" and self.lease_expires_at is not None:
            row["leaseExpiresAt"] = times.wire(self.lease_expires_at)
        return row


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which items a list asks for; ``None`` for all. ``max_attempts``: leases after which an item is parked."""

    max_attempts: int
    queue: Queue | None = None
    state: str | None = None
    project_id: str | None = None


def newest(db: Db, tenant_id: str, wanted: Wanted, reach: Reach, count: int, position: Position | None) -> list[Item]:
    """Up to ``count`` items after ``position``, newest first. The page is a merge of the newest of each queue, state
    and project that may be read, each read in order from an index."""
    states = [state for state in STATES if wanted.state in (None, state[0])]
    conditions = Conditions({
        "tenant": tenant_id, "count": count, "queues": [wanted.queue] if wanted.queue else list(QUEUES),
        "max": wanted.max_attempts,
        "shown": [s[0] for s in states], "stored": [s[1] for s in states], "expired": [s[2] for s in states],
    })  # fmt: skip
    conditions.after(position, "w.created_at", "w.id")
    projects = _projects(conditions, reach, wanted.project_id)
    sql = _PAGE.format(projects=projects, state=_STATE, conditions=conditions.sql)
    return [Item(*row) for row in db.rows(sql, conditions.params)]


def _projects(conditions: Conditions, reach: Reach, project_id: str | None) -> str:
    """What narrows a list to the project asked for and those that may be read; nothing where that is all of them."""
    if reach.everything and project_id is None:
        return ""
    narrowed = Conditions(conditions.params)
    narrowed.equal("r.id", "project", project_id)
    narrowed.within(reach, "r.id")
    conditions.params |= narrowed.params
    conditions.add("w.project_id = p.id")
    return f"CROSS JOIN (SELECT r.id FROM projects r WHERE r.tenant_id = %(tenant)s AND {narrowed.sql}) AS p"


# Two passes, each over a small index alone: counting a million items takes tenths of a second.
_STATS = f"""
SELECT w.queue, w.state, count(*), NULL::float8
  FROM work_items w WHERE w.tenant_id = %(tenant)s AND w.state IN ('done', 'withdrawn') AND {{readable}}
 GROUP BY w.queue, w.state
 UNION ALL
SELECT w.queue, s.shown, count(*), extract(epoch FROM clock_timestamp() - min(w.ready_since))::float8
  FROM work_items w
 CROSS JOIN LATERAL (SELECT {_SHOWN} AS shown) s
 WHERE w.tenant_id = %(tenant)s AND w.{UNENDED} AND {{readable}}
 GROUP BY w.queue, s.shown
"""


def stats(db: Db, tenant_id: str, reach: Reach, max_attempts: int) -> dict[str, dict[str, Any]]:
    """How many items of readable projects each queue has in each state, and how long the oldest has been ready."""
    conditions = Conditions({"tenant": tenant_id, "max": max_attempts})
    conditions.within(reach, "w.project_id")
    queues: dict[str, dict[str, Any]] = {queue: {state[0]: 0 for state in STATES} for queue in QUEUES}
    for queue, state, count, oldest in db.rows(_STATS.format(readable=conditions.sql), conditions.params):
        queues[queue][state] = count
        if state == "ready":
            queues[queue]["oldestReadySeconds"] = max(round(oldest, 3), 0)
    return queues


@dataclass(frozen=True, slots=True)
class Depth:
    """How many items of all tenants a queue has in a state, and how long the oldest has been in it or ready before."""

    queue: Queue
    state: str
    count: int
    oldest_seconds: float


def depths(db: Db) -> list[Depth]:
    """What waits in the queues, over all tenants, for those who look after the service."""
    rows = db.rows(
        "SELECT queue, state, count(*), extract(epoch FROM clock_timestamp() - min(ready_since))::float8"
        f"  FROM work_items WHERE {UNENDED} GROUP BY queue, state ORDER BY queue, state"
    )
    return [Depth(*row) for row in rows]

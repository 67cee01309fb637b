"""Leases of work items: handing them out in turns, ending them, and what is kept of those that ended."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from app.domain import times
from app.domain.leasing import LastLease, LeaseEnd
from app.domain.model import Principal, ProjectRef, Queue, Subject
from app.domain.permission import Reach
from app.store.conditions import Conditions
from app.store.engine import Db
from app.store.work import Item

BATCH = 1000
"""Most leases that one statement ends."""


def digest(token: str) -> bytes:
    """What is stored of a lease's token."""
    return hashlib.sha256(token.encode()).digest()


@dataclass(frozen=True, slots=True)
class Parked:
    """An item that was just parked, ``at`` a time of the wire."""

    tenant_id: str
    id: str
    correction_id: str
    queue: Queue
    attempt: int
    at: str


# The statement's time, here and below, and not the clock's: an index is searched for what is constant in a statement
# alone, and all that is leased, or delayed, would be looked at.
_LAPSE = """
WITH over AS (
    SELECT w.tenant_id, w.id, w.leased_by_kind, w.leased_by_id FROM work_items w
     WHERE {whose} AND w.state = 'leased' AND w.lease_expires_at <= statement_timestamp()
     ORDER BY w.lease_expires_at LIMIT %(batch)s FOR UPDATE SKIP LOCKED
), ended AS (
    UPDATE work_items w
       SET state = CASE WHEN w.attempt >= %(max)s THEN 'parked' ELSE 'ready' END, lease_ended = 'expired',
           ready_since = w.lease_expires_at, leased_by_kind = NULL, leased_by_id = NULL
      FROM over WHERE w.tenant_id = over.tenant_id AND w.id = over.id
    RETURNING w.*, over.leased_by_kind AS by_kind, over.leased_by_id AS by_id
), kept AS (
    INSERT INTO ended_leases (tenant_id, work_item_id, token_sha256, attempt, by_kind, by_id, leased_at, ended_at, how)
    SELECT tenant_id, id, lease_token_sha256, attempt, by_kind, by_id, leased_at, lease_expires_at, 'expired'
      FROM ended WHERE lease_token_sha256 IS NOT NULL AND by_kind IS NOT NULL AND leased_at IS NOT NULL
)
SELECT tenant_id, id, correction_id, queue, attempt, state, wire_time(lease_expires_at) FROM ended
"""


def lapse(db: Db, tenant_id: str | None, max_attempts: int) -> tuple[int, list[Parked]]:
    """End leases whose time is over, of one tenant or of all: the items are ready again, or parked after
    ``max_attempts``. How many it were, at most ``BATCH``, and those that were parked."""
    whose = "w.tenant_id = %(tenant)s" if tenant_id is not None else "true"
    rows = db.rows(_LAPSE.format(whose=whose), {"tenant": tenant_id, "max": max_attempts, "batch": BATCH})
    parked = [
        Parked(tenant, item_id, correction_id, queue, attempt, over_at)
        for tenant, item_id, correction_id, queue, attempt, state, over_at in rows
        if state == "parked"
    ]
    return len(rows), parked


_WAKE = """
UPDATE work_items w SET delayed = false
  FROM (SELECT d.tenant_id, d.id FROM work_items d
         WHERE {whose} AND d.state = 'ready' AND d.delayed AND d.available_at <= statement_timestamp()
         ORDER BY d.available_at LIMIT %(batch)s FOR UPDATE SKIP LOCKED) due
 WHERE w.tenant_id = due.tenant_id AND w.id = due.id
"""


def wake(db: Db, tenant_id: str | None) -> bool:
    """Let items of a tenant, or of all, whose delay is over be claimed again; true if there may be more."""
    whose = "d.tenant_id = %(tenant)s" if tenant_id is not None else "true"
    return db.run(_WAKE.format(whose=whose), {"tenant": tenant_id, "batch": BATCH}) == BATCH


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is asked for: which queue's items, of what, how many, for how many seconds."""

    queue: Queue
    project_id: str | None = None
    subject: Subject | None = None
    limit: int = 1
    lease_seconds: int = 300


@dataclass(frozen=True, slots=True)
class Leased:
    """A lease just handed out."""

    item_id: str
    correction_id: str
    attempt: int
    expires_at: datetime


_PROJECTS = "SELECT r.id FROM projects r WHERE r.tenant_id = %(tenant)s AND {conditions}"


def projects_of(db: Db, tenant_id: str, reach: Reach, project_id: str | None) -> list[str]:
    """The ids of the projects within ``reach``, or that one of them."""
    conditions = Conditions({"tenant": tenant_id})
    conditions.equal("r.id", "project", project_id)
    conditions.within(reach, "r.id")
    return [row[0] for row in db.rows(_PROJECTS.format(conditions=conditions.sql), conditions.params)]


_CLAIM = """
SELECT item_id, corrected, lease_attempt, expires_at
  FROM claim_work(%(tenant)s, %(queue)s, %(projects)s::text[], %(kind)s, %(subject)s, %(tokens)s::bytea[], %(seconds)s,
                  %(by_kind)s, %(by_id)s)
"""


def claim(
    db: Db, tenant_id: str, wanted: Wanted, projects: Sequence[str] | None, by: Principal, tokens: Sequence[bytes]
) -> list[Leased]:
    """Lease items of ``projects`` (of all, if ``None``: not with a subject) to ``by``, one for each of ``tokens``
    (digests) as far as there are any: the oldest of each subject in turn, going on after the subject that was served
    last by a claim that asked for the same."""
    subject = wanted.subject
    values = {
        "tenant": tenant_id, "queue": wanted.queue, "projects": None if projects is None else list(projects),
        "kind": subject.kind if subject else None, "subject": subject.id if subject else None,
        "tokens": list(tokens), "seconds": wanted.lease_seconds, "by_kind": by.kind, "by_id": by.id,
    }  # fmt: skip
    return [Leased(*row) for row in db.rows(_CLAIM, values)]


# OFFSET 0: look each one up by its key, whatever the planner believes of how many there are.
_CORRECTIONS = """
SELECT i.id, correction_with_copy_json(x.c, y.o)
  FROM unnest(%(ids)s::text[]) AS i(id)
 CROSS JOIN LATERAL (SELECT c, c.run_id FROM corrections c
                      WHERE c.tenant_id = %(tenant)s AND c.id = i.id OFFSET 0) x
  LEFT JOIN LATERAL (SELECT o FROM copies o
                      WHERE o.tenant_id = %(tenant)s AND o.run_id = x.run_id OFFSET 0) y ON true
"""


def with_copies(db: Db, tenant_id: str, correction_ids: Sequence[str]) -> dict[str, str]:
    """The JSON of each correction with the copy of its run, by its id."""
    return dict(db.rows(_CORRECTIONS, {"tenant": tenant_id, "ids": list(correction_ids)}))


_FIND = """
SELECT w.correction_id, w.project_id, p.org_id
  FROM work_items w JOIN projects p ON p.tenant_id = w.tenant_id AND p.id = w.project_id
 WHERE w.tenant_id = %s AND w.id = %s
"""


def find(db: Db, tenant_id: str, item_id: str) -> tuple[str, ProjectRef] | None:
    """The correction and the project of an item, which never change."""
    row = db.row(_FIND, (tenant_id, item_id))
    return None if row is None else (row[0], ProjectRef(row[1], row[2]))


_HOLD = """
SELECT lease_token_sha256, queue, state, lease_ended, coalesce(lease_expires_at <= clock_timestamp(), true),
       ended_reason
  FROM work_items WHERE tenant_id = %s AND id = %s FOR UPDATE
"""


def hold(db: Db, tenant_id: str, item_id: str) -> tuple[bytes, LastLease]:
    """The digest of an item's last token (empty if it never had one) and its last lease; both stay so until the
    transaction ends. Lock the correction first."""
    row = db.row(_HOLD, (tenant_id, item_id))
    assert row is not None
    return bytes(row[0] or b""), LastLease(*row[1:])


def end_of(db: Db, tenant_id: str, item_id: str, token: bytes) -> LeaseEnd | None:
    """How an earlier lease of the item, by the digest of its token, ended; ``None`` if there is none such."""
    how: LeaseEnd | None = db.value(
        "SELECT how FROM ended_leases WHERE tenant_id = %s AND work_item_id = %s AND token_sha256 = %s",
        (tenant_id, item_id, token),
    )
    return how


_CHANGE = """
UPDATE work_items w SET {change} WHERE w.tenant_id = %(tenant)s AND w.id = %(item)s
RETURNING w.created_at, w.id, w.queue, w.state, w.attempt, w.project_id, w.correction_id, w.ready_since,
          w.lease_expires_at
"""


def _change(db: Db, tenant_id: str, item_id: str, change: str, **values: object) -> Item:
    row = db.row(_CHANGE.format(change=change), {"tenant": tenant_id, "item": item_id, **values})
    assert row is not None
    return Item(*row)


def renew(db: Db, tenant_id: str, item_id: str, seconds: int) -> Item:
    """Let the held lease last ``seconds`` from now."""
    change = "lease_expires_at = clock_timestamp() + %(seconds)s * interval '1 second'"
    return _change(db, tenant_id, item_id, change, seconds=seconds)


_KEEP = """
INSERT INTO ended_leases (tenant_id, work_item_id, token_sha256, attempt, by_kind, by_id, leased_at, ended_at, how,
                          reason)
SELECT tenant_id, id, lease_token_sha256, attempt, leased_by_kind, leased_by_id, leased_at, clock_timestamp(),
       %(how)s, %(reason)s
  FROM work_items WHERE tenant_id = %(tenant)s AND id = %(item)s
"""


def _keep(db: Db, tenant_id: str, item_id: str, how: LeaseEnd, reason: str | None) -> None:
    db.run(_KEEP, {"tenant": tenant_id, "item": item_id, "how": how, "reason": reason})


def release(db: Db, tenant_id: str, item_id: str, delay_seconds: int, reason: str | None) -> Item:
    """End the held lease as if it had never been handed out; nobody gets the item before the delay is over."""
    _keep(db, tenant_id, item_id, "released", reason)
    change = (
        "state = 'ready', attempt = w.attempt - 1, lease_ended = 'released', lease_expires_at = NULL,"
        " leased_by_kind = NULL, leased_by_id = NULL, ready_since = clock_timestamp(), delayed = %(delay)s > 0,"
        " available_at = clock_timestamp() + %(delay)s * interval '1 second'"
    )
    return _change(db, tenant_id, item_id, change, delay=delay_seconds)


def give_up(db: Db, tenant_id: str, item_id: str, max_attempts: int, delay_seconds: int, reason: str) -> Parked | None:
    """End the held lease as if its time were over. The item is parked, and returned, if that was the last of
    ``max_attempts``; else nobody gets it before the delay is over."""
    _keep(db, tenant_id, item_id, "expired", reason)
    change = (
        "state = CASE WHEN w.attempt >= %(max)s THEN 'parked' ELSE 'ready' END, lease_ended = 'expired',"
        " lease_expires_at = clock_timestamp(), leased_by_kind = NULL, leased_by_id = NULL,"
        " ready_since = clock_timestamp(), delayed = w.attempt < %(max)s,"
        " available_at = clock_timestamp() + %(delay)s * interval '1 second'"
    )
    item = _change(db, tenant_id, item_id, change, max=max_attempts, delay=delay_seconds)
    if item.state != "parked":
        return None
    return Parked(tenant_id, item.id, item.correction_id, item.queue, item.attempt, times.wire(item.ready_since))


def finish(db: Db, tenant_id: str, item_id: str) -> Item:
    """End the item: its holder has done it."""
    change = "state = 'done', ended_reason = 'completed', ended_at = clock_timestamp()"
    return _change(db, tenant_id, item_id, change)


def requeue(db: Db, tenant_id: str, item_id: str) -> Item:
    """Make a held item that nobody has, and that hasn't ended, ready at once, its attempts counted anew; any other
    stays as it is."""
    change = """
        state = CASE WHEN w.state = 'parked' THEN 'ready' ELSE w.state END,
        ready_since = CASE WHEN w.state = 'parked' OR w.state = 'ready' AND w.delayed THEN clock_timestamp()
                           ELSE w.ready_since END,
        attempt = CASE WHEN w.state IN ('ready', 'parked') THEN 0 ELSE w.attempt END,
        delayed = w.delayed AND w.state <> 'ready'
    """
    return _change(db, tenant_id, item_id, change)

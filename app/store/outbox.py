"""Jobs as rows: written with the change that they follow, sent by the relay, done when their effect is committed.

``due_at`` is when the relay next sends the row. It moves ahead each time, so that a row whose message was lost, on
whatever way, comes again by itself.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from app.domain.jobs import IMPROVE, Ids, Job
from app.store.engine import Db

MAX_RESEND_FACTOR = 10
"""The resend delay doubles with each sending, up to this many times the first."""

MAX_WAIT_SECONDS = 600
"""Longest wait after a failure."""

_PUT = """
INSERT INTO outbox (tenant_id, job, ids)
SELECT %(tenant)s, j.job, j.ids FROM json_to_recordset(%(jobs)s) AS j(job text, ids text)
"""


def put(db: Db, tenant_id: str, jobs: Iterable[Job]) -> None:
    """Add ``jobs`` in this transaction."""
    rows = as_rows(jobs)
    if rows != "[]":
        db.run(_PUT, {"tenant": tenant_id, "jobs": rows})


def as_rows(jobs: Iterable[Job]) -> str:
    """``jobs`` as the JSON that ``put`` and ``record_correction`` take."""
    return json.dumps([{"job": job.name, "ids": json.dumps(job.ids)} for job in jobs])


# The relay's side. Its statements span all tenants: it is the one process that serves them all.


@dataclass(frozen=True, slots=True)
class Due:
    """A row that the relay took to send. ``ids`` are read of announcements only: of a job they are the worker's."""

    tenant_id: str
    id: int
    job: str
    ids: Ids
    failures: int


_LANES = {True: f"job = '{IMPROVE}'", False: f"job <> '{IMPROVE}'"}

_TAKE = """
WITH due AS (
    SELECT tenant_id, id FROM outbox
     WHERE done_at IS NULL AND dead_at IS NULL AND due_at <= now() AND {lane}
     ORDER BY due_at, id LIMIT %(count)s FOR UPDATE SKIP LOCKED
), taken AS (
    UPDATE outbox o
       SET sent_at = clock_timestamp(), sends = o.sends + 1,
           due_at = clock_timestamp()
                    + %(resend)s * least(power(2, least(o.sends, 20)), %(factor)s) * interval '1 second'
      FROM due WHERE o.tenant_id = due.tenant_id AND o.id = due.id
    RETURNING o.tenant_id, o.id, o.job, o.ids, o.failures
)
SELECT * FROM taken ORDER BY id
"""


def take(db: Db, count: int, resend_seconds: float, *, announcements: bool) -> list[Due]:
    """Up to ``count`` rows that are due, marked as sent: they come again after the resend delay unless done by then."""
    values = {"count": count, "resend": resend_seconds, "factor": MAX_RESEND_FACTOR}
    rows = db.rows(_TAKE.format(lane=_LANES[announcements]), values)
    return [
        Due(tenant, row_id, job, json.loads(ids) if announcements else {}, failures)
        for tenant, row_id, job, ids, failures in rows
    ]


_GIVE_BACK = """
UPDATE outbox o SET due_at = clock_timestamp(), sends = o.sends - 1
  FROM unnest(%(tenants)s::text[], %(ids)s::bigint[]) AS u(tenant_id, id)
 WHERE o.tenant_id = u.tenant_id AND o.id = u.id
"""


def give_back(db: Db, rows: Sequence[Due]) -> None:
    """Make ``rows``, taken and not sent, due at once."""
    db.run(_GIVE_BACK, {"tenants": [row.tenant_id for row in rows], "ids": [row.id for row in rows]})


_ANNOUNCED = """
UPDATE outbox o SET done_at = clock_timestamp()
  FROM unnest(%(tenants)s::text[], %(ids)s::bigint[]) AS u(tenant_id, id)
 WHERE o.tenant_id = u.tenant_id AND o.id = u.id
"""


def announced(db: Db, rows: Sequence[Due]) -> None:
    """Mark ``rows``, which are for somebody else, done: they were published."""
    db.run(_ANNOUNCED, {"tenants": [row.tenant_id for row in rows], "ids": [row.id for row in rows]})


# The worker's side.


@dataclass(frozen=True, slots=True)
class Claimed:
    """A row whose effect this transaction has to bring about."""

    id: int
    ids: Ids


_CLAIM = """
SELECT id, ids FROM outbox
 WHERE tenant_id = %(tenant)s AND id = ANY(%(ids)s) AND job = %(job)s AND done_at IS NULL AND dead_at IS NULL
 ORDER BY id FOR UPDATE SKIP LOCKED
"""


def claim(db: Db, tenant_id: str, job: str, row_ids: Sequence[int]) -> list[Claimed]:
    """Those of ``row_ids`` that are neither done, nor dead, nor in another worker's hands; held by this transaction."""
    rows = db.rows(_CLAIM, {"tenant": tenant_id, "job": job, "ids": list(row_ids)})
    return [Claimed(row_id, json.loads(ids)) for row_id, ids in rows]


def finish(db: Db, tenant_id: str, rows: Sequence[Claimed]) -> None:
    """Mark ``rows`` done, in the transaction of their effect."""
    db.run(
        "UPDATE outbox SET done_at = clock_timestamp() WHERE tenant_id = %s AND id = ANY(%s)",
        (tenant_id, [row.id for row in rows]),
    )


def keep(db: Db, tenant_id: str, rows: Sequence[Claimed], seconds: float) -> None:
    """Put off sending ``rows`` again: their effect is under way, in steps."""
    db.run(
        "UPDATE outbox SET due_at = clock_timestamp() + %s * interval '1 second' WHERE tenant_id = %s AND id = ANY(%s)",
        (seconds, tenant_id, [row.id for row in rows]),
    )


_FAIL = """
UPDATE outbox
   SET failures = failures + %(count)s, last_error = %(error)s,
       due_at = clock_timestamp() + least(power(2, failures), %(longest)s) * interval '1 second',
       dead_at = CASE WHEN failures + %(count)s >= %(limit)s THEN clock_timestamp() END
 WHERE tenant_id = %(tenant)s AND id = %(id)s AND done_at IS NULL AND dead_at IS NULL
RETURNING dead_at IS NOT NULL
"""


def fail(db: Db, tenant_id: str, row_id: int, error: str, limit: int, *, count: int = 1) -> bool:
    """Count a failure of the row and put it off, ever longer; true when that was the last: it is dead now.

    ``error`` is kept: it must name what went wrong and hold nothing of what callers sent.
    """
    values = {
        "tenant": tenant_id, "id": row_id, "error": error, "limit": limit, "count": count,
        "longest": MAX_WAIT_SECONDS,
    }  # fmt: skip
    return bool(db.value(_FAIL, values))


def by_failures(db: Db, tenant_id: str, row_ids: Sequence[int]) -> list[int]:
    """``row_ids`` that are still to be done, those that failed least first."""
    rows = db.rows(
        "SELECT id FROM outbox WHERE tenant_id = %s AND id = ANY(%s) AND done_at IS NULL AND dead_at IS NULL"
        " ORDER BY failures, id",
        (tenant_id, list(row_ids)),
    )
    return [row[0] for row in rows]


# What operators see.


@dataclass(frozen=True, slots=True)
class Lag:
    """How the outbox stands. ``seconds``: age of the oldest job that is neither done nor dead."""

    pending: int
    seconds: float
    dead: int
    announcements: int


_LAG = f"""
-- every tenant
SELECT (SELECT count(*) FROM outbox WHERE done_at IS NULL AND dead_at IS NULL AND {_LANES[False]}),
       (SELECT coalesce(extract(epoch FROM clock_timestamp() - min(created_at)), 0)::float8 FROM outbox
         WHERE done_at IS NULL AND dead_at IS NULL AND {_LANES[False]}),
       (SELECT count(*) FROM outbox WHERE dead_at IS NOT NULL),
       (SELECT count(*) FROM outbox WHERE done_at IS NULL AND dead_at IS NULL AND {_LANES[True]})
"""


def lag(db: Db) -> Lag:
    """How far the workers are behind, over all tenants."""
    row = db.row(_LAG)
    assert row is not None
    return Lag(*row)


def revive(db: Db) -> int:
    """Give dead jobs, of all tenants, another try; how many there were."""
    return db.run(
        "UPDATE outbox SET dead_at = NULL, failures = 0, due_at = clock_timestamp() WHERE dead_at IS NOT NULL"
    )

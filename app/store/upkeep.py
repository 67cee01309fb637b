"""What periodic tasks do: throw away what has expired, find what should have happened and didn't.

Its statements span all tenants, in bounded batches.
"""

from __future__ import annotations

from app.domain.jobs import APPLY, CAPTURE, ERASE
from app.store.engine import Db

BATCH = 1000


def alone(db: Db, name: str) -> bool:
    """Whether this transaction is the only one now that does ``name``."""
    return bool(db.value("SELECT pg_try_advisory_xact_lock(hashtextextended('chore ' || %s, 0))", (name,)))


_EXPIRE_ANSWERS = """
DELETE FROM idempotency_answers a
 USING (SELECT tenant_id, key_sha256 FROM idempotency_answers
         WHERE expires_at <= now() ORDER BY expires_at LIMIT %(batch)s FOR UPDATE SKIP LOCKED) old
 WHERE a.tenant_id = old.tenant_id AND a.key_sha256 = old.key_sha256
"""


def expire_answers(db: Db) -> bool:
    """Delete answers whose idempotency key has expired; true if there may be more."""
    return db.run(_EXPIRE_ANSWERS, {"batch": BATCH}) == BATCH


_TRIM_TRAIL = """
DELETE FROM outbox o
 USING (SELECT tenant_id, id FROM outbox
         WHERE done_at <= now() - %(hours)s * interval '1 hour' ORDER BY done_at LIMIT %(batch)s
           FOR UPDATE SKIP LOCKED) old
 WHERE o.tenant_id = old.tenant_id AND o.id = old.id
"""


def trim_trail(db: Db, hours: int) -> bool:
    """Delete jobs done longer than ``hours`` ago; true if there may be more."""
    return db.run(_TRIM_TRAIL, {"hours": hours, "batch": BATCH}) == BATCH


_TRIM_LEASES = """
DELETE FROM ended_leases l
 USING (SELECT tenant_id, work_item_id, token_sha256 FROM ended_leases
         WHERE ended_at <= now() - interval '30 days' ORDER BY ended_at LIMIT %(batch)s FOR UPDATE SKIP LOCKED) old
 WHERE l.tenant_id = old.tenant_id AND l.work_item_id = old.work_item_id AND l.token_sha256 = old.token_sha256
"""


def trim_leases(db: Db) -> bool:
    """Forget leases that ended a month ago; true if there may be more."""
    return db.run(_TRIM_LEASES, {"batch": BATCH}) == BATCH


def _not_asked(job: str, tenant: str, ids: str) -> str:
    """A condition: there is no such job about ``ids``, under way or dead, each read from an index of its own."""
    same = f"FROM outbox o WHERE o.job = '{job}' AND o.tenant_id = {tenant} AND o.ids::jsonb = {ids}"
    return (
        f"NOT EXISTS (SELECT {same} AND o.done_at IS NULL AND o.dead_at IS NULL)"
        f" AND NOT EXISTS (SELECT {same} AND o.dead_at IS NOT NULL)"
    )


_CAPTURE_IDS = "jsonb_build_object('runId', c.run_id)"
_CAPTURES = f"""
INSERT INTO outbox (tenant_id, job, ids)
SELECT c.tenant_id, '{CAPTURE}', {_CAPTURE_IDS}
  FROM copies c
 WHERE c.context_at IS NULL AND c.erased_at IS NULL AND c.taken_at < now() - interval '1 minute'
   AND {_not_asked(CAPTURE, "c.tenant_id", _CAPTURE_IDS)}
 ORDER BY c.taken_at LIMIT %(batch)s
"""


def ask_captures(db: Db) -> int:
    """Ask anew for the context of copies that have waited a minute for it with no job under way; how many."""
    return db.run(_CAPTURES, {"batch": BATCH})


_APPLY_IDS = "jsonb_build_object('projectId', w.project_id, 'subjectKind', w.subject_kind, 'subjectId', w.subject_id)"
_APPLICATIONS = f"""
INSERT INTO outbox (tenant_id, job, ids)
SELECT w.tenant_id, '{APPLY}', {_APPLY_IDS}
  FROM running w
  JOIN accepted_events e ON e.tenant_id = w.tenant_id AND e.project_id = w.project_id
   AND e.subject_kind = w.subject_kind AND e.subject_id = w.subject_id AND e.seq = w.applied_seq + 1
 WHERE w.applied_seq < w.accepted_seq AND e.accepted_at < now() - interval '1 minute'
   AND {_not_asked(APPLY, "w.tenant_id", _APPLY_IDS)}
 LIMIT %(batch)s
"""


def ask_applications(db: Db) -> int:
    """Ask anew to apply events that were accepted a minute ago with no job under way; of how many subjects."""
    return db.run(_APPLICATIONS, {"batch": BATCH})


_ERASURE_IDS = "jsonb_build_object('erasureId', e.id)"
_ERASURES = f"""
INSERT INTO outbox (tenant_id, job, ids)
SELECT e.tenant_id, '{ERASE}', {_ERASURE_IDS}
  FROM erasures e
 WHERE e.phase <> 'done' AND e.asked_at < now() - interval '1 minute'
   AND {_not_asked(ERASE, "e.tenant_id", _ERASURE_IDS)}
 ORDER BY e.asked_at LIMIT %(batch)s
"""


def ask_erasures(db: Db) -> int:
    """Ask anew for erasures that were asked for a minute ago, aren't done and have no job under way; how many."""
    return db.run(_ERASURES, {"batch": BATCH})


# Both sides are read from indexes alone, in the same order; the row is looked at only when something is wrong.
_MISPLACED = """
WITH missing AS MATERIALIZED (
    SELECT c.tenant_id, c.id FROM corrections c
     WHERE c.status IN ('open', 'with-owner') AND c.sorted_to IS NOT NULL AND c.superseded_by IS NULL
       AND NOT EXISTS (SELECT FROM work_items w WHERE w.tenant_id = c.tenant_id AND w.correction_id = c.id
                          AND w.queue = c.sorted_to AND w.state IN ('ready', 'leased', 'parked'))
     LIMIT %(batch)s
), idle AS MATERIALIZED (
    SELECT w.tenant_id, w.correction_id FROM work_items w
     WHERE w.state IN ('ready', 'leased', 'parked')
       AND NOT EXISTS (SELECT FROM corrections c WHERE c.tenant_id = w.tenant_id AND c.id = w.correction_id
                          AND c.status IN ('open', 'with-owner') AND c.sorted_to = w.queue
                          AND c.superseded_by IS NULL)
     LIMIT %(batch)s
)
SELECT c.tenant_id, array_agg(c.id) FROM (SELECT * FROM missing UNION SELECT * FROM idle) AS m (tenant_id, id)
  JOIN corrections c ON c.tenant_id = m.tenant_id AND c.id = m.id
 WHERE c.updated_at < now() - interval '1 minute'
 GROUP BY c.tenant_id
"""


def misplaced(db: Db) -> dict[str, list[str]]:
    """Corrections, by tenant, that have waited a minute in no queue or in a wrong one, or wait no longer and still
    have an item."""
    return dict(db.rows(_MISPLACED, {"batch": BATCH}))

"""Purges what projects keep for some time only: ended runs, and corrections that were superseded or removed.

Its statements span all tenants, in bounded batches. Each takes the lock of the runs that it looks at, and leaves alone
what somebody else has in hand: nothing is recorded, captured or erased meanwhile.
"""

from __future__ import annotations

from app.store.engine import Db

BATCH = 200
"""Runs that one batch locks: each is a lock of the server's."""

# The copy of a run outlives it, so a run whose copy waits for its context is still needed. Erased ones hold nothing,
# and stay so that they can't come back.
_OLD_RUNS = """
WITH old AS MATERIALIZED (
    SELECT r.tenant_id, r.id FROM projects p CROSS JOIN LATERAL (
        SELECT r.tenant_id, r.id FROM runs r
         WHERE r.tenant_id = p.tenant_id AND r.project_id = p.id AND r.erased_at IS NULL
           AND r.ended_at < now() - p.retention_runs_days * interval '1 day'
           AND NOT EXISTS (SELECT FROM copies o WHERE o.tenant_id = r.tenant_id AND o.run_id = r.id
                              AND o.context_at IS NULL AND o.erased_at IS NULL)
         ORDER BY r.ended_at LIMIT %(batch)s) r
     WHERE p.retention_runs_days IS NOT NULL LIMIT %(batch)s
)
SELECT tenant_id, id FROM old WHERE try_lock_run(tenant_id, id)
"""
_PURGE_RUNS = """
DELETE FROM runs r USING unnest(%(tenants)s::text[], %(ids)s::text[]) AS old(tenant_id, id)
 WHERE r.tenant_id = old.tenant_id AND r.id = old.id AND r.ended_at IS NOT NULL AND r.erased_at IS NULL
   AND NOT EXISTS (SELECT FROM copies o WHERE o.tenant_id = r.tenant_id AND o.run_id = r.id
                      AND o.context_at IS NULL AND o.erased_at IS NULL)
RETURNING r.tenant_id, r.id, r.conversation_id
"""
# In a later statement than the deletion: a capture that read a run beside it has stored its sources by then.
_REMEMBER = """
UPDATE copy_sources s SET conversation_id = gone.conversation_id
  FROM unnest(%(tenants)s::text[], %(ids)s::text[], %(conversations)s::text[]) AS gone(tenant_id, id, conversation_id)
 WHERE s.tenant_id = gone.tenant_id AND s.source_run_id = gone.id AND gone.conversation_id IS NOT NULL
"""
_PURGE_TRACES = """
DELETE FROM traces t USING unnest(%(tenants)s::text[], %(ids)s::text[]) AS gone(tenant_id, id)
 WHERE t.tenant_id = gone.tenant_id AND t.id = gone.id
"""
# Nobody can reach a copy whose run and corrections are gone.
_PURGE_COPIES = """
DELETE FROM copies o USING unnest(%(tenants)s::text[], %(runs)s::text[]) AS old(tenant_id, run_id)
 WHERE o.tenant_id = old.tenant_id AND o.run_id = old.run_id
   AND NOT EXISTS (SELECT FROM runs r WHERE r.tenant_id = o.tenant_id AND r.id = o.run_id)
   AND NOT EXISTS (SELECT FROM corrections c WHERE c.tenant_id = o.tenant_id AND c.run_id = o.run_id)
"""


def purge_runs(db: Db) -> bool:
    """Delete runs that ended longer ago than their project keeps them; true if there may be more.

    The spans that one was made of go with it. Where one stands in the context of another's copy, its conversation is
    noted there.
    """
    rows = db.rows(_OLD_RUNS, {"batch": BATCH})
    tenants, ids = [row[0] for row in rows], [row[1] for row in rows]
    gone = db.rows(_PURGE_RUNS, {"tenants": tenants, "ids": ids})
    db.run(_PURGE_COPIES, {"tenants": tenants, "runs": ids})
    names = ("tenants", "ids", "conversations")
    purged = {name: [row[at] for row in gone] for at, name in enumerate(names)}
    db.run(_PURGE_TRACES, purged)
    db.run(_REMEMBER, purged)
    return bool(gone)


_OLD_TOMBSTONES = """
WITH old AS MATERIALIZED (
    SELECT c.tenant_id, c.id, c.run_id FROM projects p CROSS JOIN LATERAL (
        SELECT c.tenant_id, c.id, c.run_id FROM corrections c
         WHERE c.tenant_id = p.tenant_id AND c.project_id = p.id
           AND c.unregistered_at < now() - p.retention_tombstones_days * interval '1 day'
           AND NOT EXISTS (SELECT FROM work_items w WHERE w.tenant_id = c.tenant_id AND w.correction_id = c.id
                              AND w.state IN ('ready', 'leased', 'parked'))
         ORDER BY c.unregistered_at LIMIT %(batch)s) c
     WHERE p.retention_tombstones_days IS NOT NULL LIMIT %(batch)s
), locked AS MATERIALIZED (
    SELECT tenant_id, id, run_id FROM old WHERE try_lock_run(tenant_id, run_id)
)
SELECT c.tenant_id, c.id, c.run_id FROM locked l JOIN corrections c ON c.tenant_id = l.tenant_id AND c.id = l.id
   FOR UPDATE OF c SKIP LOCKED
"""
_PURGE_AROUND = (
    """
DELETE FROM correction_history h USING unnest(%(tenants)s::text[], %(ids)s::text[]) AS old(tenant_id, id)
 WHERE h.tenant_id = old.tenant_id AND h.correction_id = old.id
""",
    """
DELETE FROM work_items w USING unnest(%(tenants)s::text[], %(ids)s::text[]) AS old(tenant_id, id)
 WHERE w.tenant_id = old.tenant_id AND w.correction_id = old.id
""",
)
_PURGE_CORRECTIONS = """
DELETE FROM corrections c USING unnest(%(tenants)s::text[], %(ids)s::text[]) AS old(tenant_id, id)
 WHERE c.tenant_id = old.tenant_id AND c.id = old.id
"""


def purge_tombstones(db: Db) -> bool:
    """Delete corrections that were superseded or removed longer ago than their project keeps them, with their history,
    ended work items and test results; true if there may be more."""
    rows = db.rows(_OLD_TOMBSTONES, {"batch": BATCH})
    values = {"tenants": [row[0] for row in rows], "ids": [row[1] for row in rows], "runs": [row[2] for row in rows]}
    for statement in _PURGE_AROUND:
        db.run(statement, values)
    gone = db.run(_PURGE_CORRECTIONS, values)
    db.run(_PURGE_COPIES, values)
    return gone > 0

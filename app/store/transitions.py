"""The rule of ``app/domain/lifecycle.py`` as SQL, for all corrections of a batch at once. A test holds both equal."""

from __future__ import annotations

from dataclasses import dataclass

from app.domain.model import Status
from app.store.engine import Db
from app.store.passes import CANDIDATES, Batch, Deciding
from app.store.running import Keys
from app.store.standings import NEWEST_VERDICT

# What becomes of a live correction c, by the newest verdict for the running version and whether the event names it in
# its resolves; null: it stays.
BECOMES = """
CASE WHEN c.status IN ('open', 'being-fixed', 'with-owner') THEN
          CASE WHEN v.verdict = 'right' AND (c.subject_version <> e.version OR c.reopened_version IS NOT NULL)
                 OR v.verdict IS NULL AND n.resolved THEN 'fixed' END
     WHEN c.status = 'fixed' AND v.verdict = 'wrong' THEN
          CASE WHEN c.sorted_to = 'owner' THEN 'with-owner' ELSE 'open' END
END
"""

# NO KEY: who only refers to one of them, as a test run does, doesn't wait for this, nor this for them.
_DECIDE = f"""
WITH event AS (
    SELECT accepted_at AS at, version, how, by_kind, by_id FROM accepted_events
     WHERE tenant_id = %(tenant)s AND project_id = %(project)s AND subject_kind = %(kind)s AND subject_id = %(id)s
       AND seq = %(seq)s
), picked AS MATERIALIZED (
    SELECT c.id, c.status AS was, {BECOMES} AS becomes, v.test_run_id,
           c.status = 'fixed' AND c.sorted_to IS NULL AND NOT c.end_user AS unsorted
      FROM event e
     CROSS JOIN ({CANDIDATES}) AS k
      JOIN corrections c ON c.tenant_id = %(tenant)s AND c.id = k.correction_id
     CROSS JOIN LATERAL (
           SELECT EXISTS (SELECT FROM resolved_corrections x
                           WHERE x.tenant_id = c.tenant_id AND x.source_id = %(resolves)s
                             AND x.project_id = c.project_id AND x.correction_id = c.id) AS resolved) n
      LEFT JOIN LATERAL ({NEWEST_VERDICT.format(version="%(version)s", correction="c.id", seq="%(seq)s")}) v ON true
     WHERE c.unregistered_at IS NULL AND c.decided_seq < %(seq)s AND {BECOMES} IS NOT NULL
     ORDER BY c.id FOR NO KEY UPDATE OF c
), clock AS MATERIALIZED (
    SELECT date_trunc('milliseconds', clock_timestamp()) AS now FROM (SELECT count(*) FROM picked) after_the_locks
), moved AS (
    UPDATE corrections c
       SET status = p.becomes,
           fixed_version = CASE WHEN p.becomes = 'fixed' THEN e.version ELSE c.fixed_version END,
           fixed_how = CASE WHEN p.becomes <> 'fixed' THEN c.fixed_how
                            WHEN e.how IN ('pin', 'went-back') THEN 'pin' ELSE 'latest' END,
           fixed_by_kind = CASE WHEN p.becomes = 'fixed' THEN e.by_kind ELSE c.fixed_by_kind END,
           fixed_by_id = CASE WHEN p.becomes = 'fixed' THEN e.by_id ELSE c.fixed_by_id END,
           fixed_at = CASE WHEN p.becomes = 'fixed' THEN e.at ELSE c.fixed_at END,
           reopened_version = CASE WHEN p.becomes <> 'fixed' THEN e.version END,
           reopened_how = CASE WHEN p.becomes <> 'fixed' THEN e.how END,
           reopened_by_kind = CASE WHEN p.becomes <> 'fixed' THEN e.by_kind END,
           reopened_by_id = CASE WHEN p.becomes <> 'fixed' THEN e.by_id END,
           reopened_at = CASE WHEN p.becomes <> 'fixed' THEN e.at END,
           sorted_to = CASE WHEN p.unsorted THEN 'improve' ELSE c.sorted_to END,
           sorted_by_kind = CASE WHEN p.unsorted THEN 'rule' ELSE c.sorted_by_kind END,
           sorted_at = CASE WHEN p.unsorted THEN e.at ELSE c.sorted_at END,
           decided_seq = %(seq)s, version = c.version + 1, updated_at = k.now
      FROM picked p, event e, clock k
     WHERE c.tenant_id = %(tenant)s AND c.id = p.id
), told AS (
    INSERT INTO correction_history (tenant_id, correction_id, at, kind, by_kind, by_id, from_value, to_value, version,
                                    how, test_run_id)
    SELECT %(tenant)s, h.id, k.now, h.kind, h.by_kind, h.by_id, h.was, h.becomes, h.version, h.how, h.test_run_id
      FROM (SELECT p.id, 1 AS place, CASE p.becomes WHEN 'fixed' THEN 'fixed' ELSE 'reopened' END AS kind,
                   e.by_kind, e.by_id, p.was, p.becomes, e.version,
                   CASE WHEN p.becomes <> 'fixed' THEN e.how
                        WHEN e.how IN ('pin', 'went-back') THEN 'pin' ELSE 'latest' END AS how, p.test_run_id
              FROM picked p, event e
             UNION ALL
            SELECT p.id, 2, 'sorted', 'rule', NULL, NULL, 'improve', NULL, NULL, NULL FROM picked p WHERE p.unsorted) h,
           clock k
     ORDER BY h.id, h.place
)
SELECT id, becomes FROM picked
"""


@dataclass(frozen=True, slots=True)
class Transition:
    """What an event made of a correction."""

    correction_id: str
    becomes: Status


def decide(db: Db, keys: Keys, batch: Batch, event: Deciding) -> list[Transition]:
    """Decide at ``event`` on those corrections of the batch that it concerns, and write what becomes of them."""
    values = {
        "after": batch.after_id, "last": batch.last_id, "seq": event.seq, "decides": event.decides,
        "version": event.version, "test_run": event.test_run_id, "resolves": event.resolves_id,
    }  # fmt: skip
    return [Transition(*row) for row in db.rows(_DECIDE, {**keys, **values})]

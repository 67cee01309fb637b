"""What an erasure clears: runs, copies, contexts, corrections, and answers that were kept. Each twice is as once.

A run is cleared under its lock and before the contexts are looked through, in a later statement: a capture either had
its context stored by then, or finds the run erased.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from app.domain.context import Source
from app.store.engine import Db
from app.store.erasures import Erasure

ANSWERS_AT_ONCE = 500
"""Kept answers that are looked through in one step."""

_RUN = """
UPDATE runs
   SET input = NULL, output = NULL, messages = NULL, retrieved = NULL, recalled = NULL, calls = NULL, segments = NULL,
       session_approval = NULL, content_sha256 = '', erased_at = clock_timestamp(), updated_at = clock_timestamp()
 WHERE tenant_id = %(tenant)s AND id = %(run)s AND erased_at IS NULL
"""
_COPY = """
WITH forgotten AS (DELETE FROM copy_sources WHERE tenant_id = %(tenant)s AND run_id = %(run)s)
UPDATE copies
   SET input = NULL, output = NULL, context = NULL, segments = '[]', erased_at = clock_timestamp(),
       context_at = coalesce(context_at, clock_timestamp())
 WHERE tenant_id = %(tenant)s AND run_id = %(run)s AND erased_at IS NULL
"""
# A run that retention purged comes back, empty: an erased run is refused for good, whatever went first. It completed,
# since it was corrected. A PUT of it under way is waited for, and then cleared as the run that it is.
_TOMBSTONE = """
INSERT INTO runs (tenant_id, id, project_id, subject_kind, subject_id, subject_version, status, conversation_id,
                  replay_of, content_sha256, arrived_at, updated_at, ended_at, erased_at)
SELECT o.tenant_id, o.run_id, o.project_id, o.subject_kind, o.subject_id, o.subject_version, 'completed',
       o.conversation_id, o.replay_of, '', o.taken_at, clock_timestamp(), o.taken_at, clock_timestamp()
  FROM copies o WHERE o.tenant_id = %(tenant)s AND o.run_id = %(run)s
ON CONFLICT DO NOTHING
"""
# A trace of which no run was made yet: none will be.
_TOMBSTONE_OF_TRACE = """
INSERT INTO runs (tenant_id, id, project_id, subject_kind, subject_id, subject_version, status, content_sha256,
                  arrived_at, updated_at, ended_at)
SELECT t.tenant_id, t.id, t.project_id, 'agent', 'unknown', 'unversioned', 'cancelled', '', t.arrived_at,
       clock_timestamp(), clock_timestamp()
  FROM traces t WHERE t.tenant_id = %(tenant)s AND t.id = %(run)s ORDER BY t.project_id LIMIT 1
ON CONFLICT DO NOTHING
"""
_TRACE = "DELETE FROM traces WHERE tenant_id = %(tenant)s AND id = %(run)s"
_DETAILS_OF_RUN = """
UPDATE test_results t SET detail = NULL FROM corrections c
 WHERE c.tenant_id = %(tenant)s AND c.run_id = %(run)s AND t.tenant_id = c.tenant_id AND t.correction_id = c.id
   AND t.detail IS NOT NULL
"""


def clear_run(db: Db, tenant_id: str, run_id: str) -> tuple[int, int]:
    """Clear the content of a run, its spans and its copy, and what tests kept of it; how many runs and copies."""
    values = {"tenant": tenant_id, "run": run_id}
    db.run("SELECT lock_run(%(tenant)s, %(run)s)", values)
    db.run(_TOMBSTONE, values)
    db.run(_TOMBSTONE_OF_TRACE, values)
    db.run(_TRACE, values)
    runs = db.run(_RUN, values)
    copies = db.run(_COPY, values)
    if copies:
        renew(db, tenant_id, run_id)
    db.run(_DETAILS_OF_RUN, values)
    return runs, copies


# Whoever holds several corrections takes them in the order of their ids; an update alone takes them as they lie.
_HOLD = "SELECT id FROM corrections WHERE tenant_id = %(tenant)s AND {which} ORDER BY id FOR NO KEY UPDATE"


def renew(db: Db, tenant_id: str, run_id: str) -> None:
    """Give the corrections of a run new ETags: they are shown with its copy. Waits for whoever has one in hand."""
    db.run(_HOLD.format(which="run_id = %(run)s"), {"tenant": tenant_id, "run": run_id})
    db.run(
        "UPDATE corrections SET version = version + 1 WHERE tenant_id = %s AND run_id = %s",
        (tenant_id, run_id),
    )


@dataclass(frozen=True, slots=True)
class HeldContext:
    """A context that holds something of runs that are being erased."""

    run_id: str
    text: str
    sources: list[Source]
    erased: frozenset[str]


_NEXT_CONTEXT = """
SELECT s.run_id FROM erasure_items i JOIN copy_sources s ON s.tenant_id = i.tenant_id AND s.source_run_id = i.id
 WHERE i.tenant_id = %(tenant)s AND i.erasure_id = %(id)s AND i.kind = 'run' LIMIT 1
"""
_SOURCES = """
SELECT s.source_run_id, s.messages, i.id IS NOT NULL
  FROM copy_sources s
  LEFT JOIN erasure_items i ON i.tenant_id = s.tenant_id AND i.erasure_id = %(id)s AND i.kind = 'run'
                           AND i.id = s.source_run_id
 WHERE s.tenant_id = %(tenant)s AND s.run_id = %(run)s ORDER BY s.place
"""


def next_context(db: Db, erasure: Erasure) -> str | None:
    """The run whose copy's context is the next that holds something of the erasure's runs."""
    run_id: str | None = db.value(_NEXT_CONTEXT, {"tenant": erasure.tenant_id, "id": erasure.id})
    return run_id


def hold_context(db: Db, erasure: Erasure, run_id: str) -> HeldContext | None:
    """The context of the copy of ``run_id``, held by this transaction; ``None`` if it went meanwhile."""
    text = db.value(
        "SELECT context FROM copies WHERE tenant_id = %s AND run_id = %s FOR UPDATE", (erasure.tenant_id, run_id)
    )
    if text is None:
        return None
    rows = db.rows(_SOURCES, {"tenant": erasure.tenant_id, "id": erasure.id, "run": run_id})
    erased = frozenset(row[0] for row in rows if row[2])
    return HeldContext(run_id, text, [Source(row[0], row[1]) for row in rows], erased)


_PUT_CONTEXT = """
WITH forgotten AS (
    DELETE FROM copy_sources WHERE tenant_id = %(tenant)s AND run_id = %(run)s AND source_run_id = ANY(%(erased)s))
UPDATE copies SET context = %(context)s WHERE tenant_id = %(tenant)s AND run_id = %(run)s
"""


def put_context(db: Db, tenant_id: str, held: HeldContext, text: str) -> None:
    """Put ``text``, in which nothing of the erased runs is left, in the place of a held context."""
    db.run(_PUT_CONTEXT, {"tenant": tenant_id, "run": held.run_id, "erased": list(held.erased), "context": text})
    renew(db, tenant_id, held.run_id)


# Under the lock of its run a correction is not about to be superseded.
_LOCK_RUNS = """
SELECT lock_run(r.tenant_id, r.run_id)
  FROM (SELECT DISTINCT c.tenant_id, c.run_id FROM corrections c
         WHERE c.tenant_id = %(tenant)s AND c.id = ANY(%(ids)s) ORDER BY c.run_id) r
"""
_CORRECTIONS = """
UPDATE corrections
   SET why = NULL, should_say = NULL, sorted_reason = NULL, status_note_text = NULL, status_note_by_kind = NULL,
       status_note_by_id = NULL, status_note_at = NULL, participant_id = NULL, participant_sha256 = '',
       erased_participant = true, version = version + 1,
       updated_at = greatest(updated_at, date_trunc('milliseconds', clock_timestamp()))
 WHERE tenant_id = %(tenant)s AND id = ANY(%(ids)s) AND NOT erased_participant
"""
_AROUND_CORRECTIONS = (
    """
UPDATE correction_history SET reason = NULL
 WHERE tenant_id = %(tenant)s AND correction_id = ANY(%(ids)s) AND reason IS NOT NULL
""",
    """
UPDATE ended_leases l SET reason = NULL FROM work_items w
 WHERE w.tenant_id = %(tenant)s AND w.correction_id = ANY(%(ids)s) AND l.tenant_id = w.tenant_id
   AND l.work_item_id = w.id AND l.reason IS NOT NULL
""",
    """
UPDATE test_results SET detail = NULL
 WHERE tenant_id = %(tenant)s AND correction_id = ANY(%(ids)s) AND detail IS NOT NULL
""",
)


def clear_corrections(db: Db, tenant_id: str, ids: Sequence[str]) -> int:
    """Take the words and the participant out of corrections, and the words about them out of what is kept with them;
    how many corrections that were."""
    values = {"tenant": tenant_id, "ids": list(ids)}
    db.rows(_LOCK_RUNS, values)
    db.run(_HOLD.format(which="id = ANY(%(ids)s)"), values)
    count = db.run(_CORRECTIONS, values)
    for statement in _AROUND_CORRECTIONS:
        db.run(statement, values)
    return count


# An answer holds a run's content if it is the run, or shows its copy; a correction's words if it shows the correction.
# Ids of our own rendering need no escapes; what a caller wrote the same way costs its answer at worst. The hash of the
# request goes, too: of what held a short word, or who said it, it can be guessed.
_HOLDS = {
    "run": r'(?:^\{"id"|"run":\{"runId"):"([^"]+)"',
    "conversation": r'(?:^\{"id"|"run":\{"runId"):"([^"]+)"',
    "participant": r'"id":"([^"]+)"',
}
_ANSWERS = """
WITH looked AS MATERIALIZED (
    SELECT a.key_sha256, a.body FROM idempotency_answers a JOIN erasures e ON e.tenant_id = a.tenant_id
     WHERE a.tenant_id = %(tenant)s AND e.id = %(id)s AND a.key_sha256 > e.answers_after
     ORDER BY a.key_sha256 LIMIT %(batch)s
), holding AS (
    SELECT l.key_sha256 FROM looked l
     WHERE EXISTS (
           SELECT FROM regexp_matches(convert_from(l.body, 'UTF8'), %(holds)s, 'g') AS named (ids)
             JOIN erasure_items i ON i.tenant_id = %(tenant)s AND i.erasure_id = %(id)s AND i.id = named.ids[1])
), withheld AS (
    UPDATE idempotency_answers a SET withheld = true, body = NULL, body_sha256 = '' FROM holding h
     WHERE a.tenant_id = %(tenant)s AND a.key_sha256 = h.key_sha256
    RETURNING a.key_sha256
), noted AS (
    UPDATE erasures e
       SET answers = e.answers + (SELECT count(*) FROM withheld),
           answers_after = coalesce((SELECT l.key_sha256 FROM looked l ORDER BY l.key_sha256 DESC LIMIT 1),
                                    e.answers_after)
     WHERE e.tenant_id = %(tenant)s AND e.id = %(id)s
)
SELECT count(*) FROM looked
"""


def withhold_answers(db: Db, erasure: Erasure) -> bool:
    """Take the content of those of the next kept answers that hold what was cleared; true if there may be more."""
    values = {
        "tenant": erasure.tenant_id, "id": erasure.id, "batch": ANSWERS_AT_ONCE, "holds": _HOLDS[erasure.kind],
    }  # fmt: skip
    return int(db.value(_ANSWERS, values)) == ANSWERS_AT_ONCE

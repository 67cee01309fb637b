"""The copies of corrected runs, and what is read from the runs around one for its replay context."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from app.domain.context import MAX_MESSAGES, Context, Node, Part
from app.store.engine import Db

_BATCH_BYTES = 8 * 1024 * 1024
_BATCH_ROWS = 100


@dataclass(frozen=True, slots=True)
class Waiting:
    """A copy that has no context yet. ``taken_at``: the moment as of which the context is to be."""

    run_id: str
    project_id: str
    kind: str
    replay_of: str | None
    taken_at: datetime


@dataclass(frozen=True, slots=True)
class Turn:
    """A run's place in its conversation: its time, ties by arrival."""

    conversation_id: str | None
    at: datetime
    arrival: int


def lock_waiting(db: Db, tenant_id: str, run_id: str) -> Waiting | None:
    """The run's copy, locked together with the run, if it waits for its context."""
    db.run("SELECT lock_run(%s, %s)", (tenant_id, run_id))
    row = db.row(
        "SELECT run_id, project_id, subject_kind, replay_of, taken_at FROM copies"
        " WHERE tenant_id = %s AND run_id = %s AND context_at IS NULL AND erased_at IS NULL",
        (tenant_id, run_id),
    )
    return None if row is None else Waiting(*row)


_ADD_SOURCES = """
INSERT INTO copy_sources (tenant_id, run_id, source_run_id, place, messages)
SELECT %(tenant)s, %(run)s, s.source_run_id, s.place, s.messages
  FROM unnest(%(sources)s::text[], %(messages)s::integer[]) WITH ORDINALITY AS s(source_run_id, messages, place)
"""


def add_context(db: Db, tenant_id: str, run_id: str, context: Context) -> None:
    """Complete the copy."""
    db.run(
        "UPDATE copies SET context = %s, context_at = clock_timestamp() WHERE tenant_id = %s AND run_id = %s",
        (context.text, tenant_id, run_id),
    )
    if context.sources:
        sources, messages = [s.run_id for s in context.sources], [s.messages for s in context.sources]
        db.run(_ADD_SOURCES, {"tenant": tenant_id, "run": run_id, "sources": sources, "messages": messages})


def turn(db: Db, tenant_id: str, run_id: str) -> Turn | None:
    """Where the run is in its conversation."""
    row = db.row(
        "SELECT conversation_id, coalesce(started_at, arrived_at), arrival FROM runs WHERE tenant_id = %s AND id = %s",
        (tenant_id, run_id),
    )
    return None if row is None else Turn(*row)


_EARLIER = f"""
SELECT id, octet_length(messages) FROM runs
 WHERE tenant_id = %(tenant)s AND conversation_id = %(conversation)s AND project_id = %(project)s
   AND messages IS NOT NULL AND octet_length(messages) > 2
   AND arrived_at <= %(taken)s AND ended_at <= %(taken)s AND erased_at IS NULL
   AND (coalesce(started_at, arrived_at), arrival) < (%(at)s, %(arrival)s)
 ORDER BY coalesce(started_at, arrived_at) DESC, arrival DESC LIMIT {MAX_MESSAGES + 1}
"""

_MESSAGES = """
SELECT id, messages FROM runs
 WHERE tenant_id = %(tenant)s AND id = ANY(%(ids)s) AND erased_at IS NULL FOR SHARE
"""


def earlier_messages(db: Db, tenant_id: str, copy: Waiting, own: Turn) -> Iterator[tuple[str, str]]:
    """Earlier runs of the conversation with their messages, newest first: at least one more than a history holds."""
    asked = {
        "tenant": tenant_id, "conversation": own.conversation_id, "project": copy.project_id, "taken": copy.taken_at,
        "at": own.at, "arrival": own.arrival,
    }  # fmt: skip
    for ids in _batches([(run_id, size) for run_id, size in db.rows(_EARLIER, asked)]):
        found: dict[str, str] = dict(db.rows(_MESSAGES, {"tenant": tenant_id, "ids": ids}))
        yield from ((run_id, found[run_id]) for run_id in ids if run_id in found)


_BELOW = """
WITH RECURSIVE below(id) AS (
    SELECT %(run)s::text
     UNION
    SELECT r.id FROM below b JOIN runs r ON r.tenant_id = %(tenant)s AND r.parent_run_id = b.id
     WHERE r.project_id = %(project)s AND r.arrived_at <= %(taken)s
)
SELECT r.id, r.parent_run_id, r.ended_at <= %(taken)s AND r.erased_at IS NULL,
       coalesce(octet_length(r.calls), 0) + coalesce(octet_length(r.retrieved), 0)
           + coalesce(octet_length(r.recalled), 0)
  FROM below b JOIN runs r ON r.tenant_id = %(tenant)s AND r.id = b.id
 ORDER BY coalesce(r.started_at, r.arrived_at), r.arrival
"""


def below(db: Db, tenant_id: str, copy: Waiting) -> tuple[list[Node], dict[str, int]]:
    """The run and all runs below it in its project, in their order in time, and the bytes of what each gives."""
    asked = {"run": copy.run_id, "tenant": tenant_id, "project": copy.project_id, "taken": copy.taken_at}
    rows = db.rows(_BELOW, asked)
    return [Node(row[0], row[1], bool(row[2])) for row in rows], {row[0]: row[3] for row in rows}


# Locked against an erasure: it waits until the context is stored, where it finds what it takes away.
_PARTS = """
SELECT id, subject_kind, subject_id, subject_version, node_id, scope, calls, retrieved, recalled, session_approval
  FROM runs WHERE tenant_id = %(tenant)s AND id = ANY(%(ids)s) AND erased_at IS NULL FOR SHARE
"""


def parts(db: Db, tenant_id: str, ids: list[str], sizes: dict[str, int]) -> Iterator[Part]:
    """What the runs ``ids`` give to a context, in that order, read a few at a time."""
    for batch in _batches([(run_id, sizes.get(run_id, 0)) for run_id in ids]):
        found = {row[0]: Part(*row) for row in db.rows(_PARTS, {"tenant": tenant_id, "ids": batch})}
        yield from (found[run_id] for run_id in batch if run_id in found)


def _batches(sizes: list[tuple[str, int]]) -> Iterator[list[str]]:
    """Ids in their order, so many at a time as are read at once."""
    batch: list[str] = []
    total = 0
    for run_id, size in sizes:
        if batch and (len(batch) == _BATCH_ROWS or total + size > _BATCH_BYTES):
            yield batch
            batch, total = [], 0
        batch.append(run_id)
        total += size
    if batch:
        yield batch

"""Applies the accepted events of a subject to its corrections, in their order, in short steps that any worker can take.

Every step is one transaction and leaves the work so that any other worker can go on: nothing is lost when one is
killed, nothing is done twice, and what comes out doesn't depend on who did which step when.
"""

from __future__ import annotations

from collections.abc import Sequence

from app import metrics
from app.domain import jobs
from app.domain.jobs import Job
from app.domain.model import Subject
from app.services.fold import event_key, told_of
from app.services.route import sync
from app.store import outbox, passes, test_runs, transitions
from app.store.engine import Db
from app.store.passes import Batch, Deciding, Happened, Progress
from app.store.running import Keys, keys_of
from app.store.transitions import Transition

BATCH = 500
"""Corrections that one step decides on: short locks, and little to do again after a kill."""

BATCHES_AT_ONCE = 4
"""Batches handed out in one step."""

EVENTS_AT_ONCE = 50
"""Events of one pass."""

HELPERS = 3
"""Jobs that call other workers to a pass of more than one step."""


def step(tx: Db, tenant_id: str, project_id: str, subject: Subject) -> bool:
    """Do one step, if there is one to do. True: call again, in another transaction."""
    keys = keys_of(tenant_id, project_id, subject)
    batch = passes.take(tx, keys)
    if batch is not None:
        _decide(tx, keys, batch)
        return True
    progress = passes.lock(tx, keys)
    if progress is None:
        return False
    if progress.to_seq is None:
        return _begin(tx, keys, progress)
    if not progress.handed_out:
        _hand_out(tx, keys, progress.applied_seq, progress.to_seq, progress.handed_to)
        return True
    if passes.in_hand(tx, keys):
        return False
    _close(tx, keys, progress.to_seq)
    return True


def _begin(tx: Db, keys: Keys, progress: Progress) -> bool:
    if progress.applied_seq >= progress.accepted_seq:
        return False
    to_seq = min(progress.accepted_seq, progress.applied_seq + EVENTS_AT_ONCE)
    if not passes.deciding(tx, keys, progress.applied_seq, to_seq):
        passes.close(tx, keys, to_seq)
        return True
    passes.begin(tx, keys, progress.applied_seq, to_seq)
    if not _hand_out(tx, keys, progress.applied_seq, to_seq, ""):
        outbox.put(tx, keys["tenant"], [_call(keys)] * HELPERS)
    return True


def _hand_out(tx: Db, keys: Keys, from_seq: int, to_seq: int, after_id: str) -> bool:
    """Hand out the next batches; true when these are all."""
    ends: list[str] = []
    found = BATCH
    while found == BATCH and len(ends) < BATCHES_AT_ONCE:
        end, found = passes.next_end(tx, keys, from_seq, to_seq, ends[-1] if ends else after_id, BATCH)
        if end is not None:
            ends.append(end)
    passes.hand_out(tx, keys, after_id, ends, handed_out=found < BATCH)
    return found < BATCH


def _decide(tx: Db, keys: Keys, batch: Batch) -> None:
    events = passes.deciding(tx, keys, batch.from_seq, batch.to_seq)
    if len(events) > 1:  # each holds its own in their order, but one after the other isn't the order of all
        passes.hold(tx, keys, batch)
    made = [(event, transitions.decide(tx, keys, batch, event)) for event in events]
    sync(tx, keys["tenant"], [one.correction_id for _, each in made for one in each])
    passes.finish(tx, keys, batch)
    _count(tx, keys, made)
    passes.note(tx, keys, _happened(made))


def _count(tx: Db, keys: Keys, made: Sequence[tuple[Deciding, Sequence[Transition]]]) -> None:
    for event, each in made:
        fixed = sum(one.becomes == "fixed" for one in each)
        reopened = len(each) - fixed
        metrics.transitions("fixed", fixed)
        metrics.transitions("reopened", reopened)
        if event.test_run_id is not None and each:
            test_runs.count(tx, keys["tenant"], event.test_run_id, fixed=fixed, reopened=reopened)


def _happened(made: Sequence[tuple[Deciding, Sequence[Transition]]]) -> dict[str, list[tuple[str, int]]]:
    happened: dict[str, list[tuple[str, int]]] = {}
    for event, each in made:
        for one in each:
            for told in told_of(one.becomes):
                happened.setdefault(told, []).append((one.correction_id, event.seq))
    return happened


def _close(tx: Db, keys: Keys, to_seq: int) -> None:
    happened = passes.close(tx, keys, to_seq)
    outbox.put(tx, keys["tenant"], [job for one in happened for job in _notices(keys, to_seq, one)])


def _notices(keys: Keys, to_seq: int, happened: Happened) -> list[Job]:
    if happened.total <= len(happened.first):
        return [jobs.notify(happened.event, correction, event_key(seq)) for correction, seq in happened.first]
    first = {correction: event_key(seq) for correction, seq in happened.first}
    key = " ".join([happened.event, keys["project"], keys["kind"], keys["id"], str(to_seq)])
    return [jobs.notify_many(happened.event, first, happened.total, key)]


def _call(keys: Keys) -> Job:
    return jobs.apply(keys["project"], keys["kind"], keys["id"])

"""Applies to one correction the accepted events that the workers haven't come to yet."""

from __future__ import annotations

from app.domain import jobs, lifecycle
from app.domain.jobs import Job
from app.domain.messages import FIXED, REOPENED, WITH_OWNER
from app.domain.model import RULE, Actor, Standing, Status
from app.store import history, standings, test_runs
from app.store.engine import Db
from app.store.standings import Held, Pending


def fold_pending(tx: Db, held: Held) -> tuple[Standing, list[Job]]:
    """Where the held correction stands after the events that are pending for it, and the jobs that tell of them.

    Writes their history. The standing is for the caller to save, as having all events in it.
    """
    standing, following = held.standing, list[Job]()
    for event in standings.pending(tx, held):
        after = lifecycle.decide(held.corrected, standing, event.occasion)
        if after is not None:
            _tell(tx, held, standing, after, event)
            following += [jobs.notify(told, held.id, event_key(event.seq)) for told in told_of(after.status)]
            standing = after
    return standing, following


def told_of(becomes: Status) -> list[str]:
    """What is told of a transition by an event."""
    if becomes == "fixed":
        return [FIXED]
    return [REOPENED, WITH_OWNER] if becomes == "with-owner" else [REOPENED]


def event_key(seq: int) -> str:
    """What tells a notice of the event ``seq`` from the others of the same correction."""
    return f"event-{seq}"


def _tell(tx: Db, held: Held, before: Standing, after: Standing, event: Pending) -> None:
    stamp = after.fixed_in if after.status == "fixed" else after.reopened_in
    assert stamp is not None
    history.add(
        tx,
        held.tenant_id,
        held.id,
        "fixed" if after.status == "fixed" else "reopened",
        by=Actor.of(stamp.by) if stamp.by else None,
        from_value=before.status,
        to_value=after.status,
        version=stamp.version,
        how=stamp.how,
        test_run_id=event.verdict_from,
    )
    if after.sorted != before.sorted:
        history.add(tx, held.tenant_id, held.id, "sorted", by=RULE, to_value=after.sorted_to)
    if event.test_run_id is not None:
        fixed = after.status == "fixed"
        test_runs.count(tx, held.tenant_id, event.test_run_id, fixed=int(fixed), reopened=int(not fixed))

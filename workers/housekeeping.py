"""Periodic tasks. Each is a few steps, in bounded batches; a step that fails holds up no other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from app import log
from app.config import Settings
from app.domain.errors import DatabaseBusy
from app.domain.jobs import HOUSEKEEPING, RETENTION, SWEEP
from app.services import sweep
from app.services.claim import end_leases
from app.services.improve import announce_overlooked
from app.services.join_spans import settle_next
from app.store import deliveries, participants, retention, spans, upkeep
from app.store.engine import Db
from app.transaction import transaction
from workers.task import Runner, measured

MOST_ROUNDS = 100
"""Batches of one step in one run; the next run goes on."""


Steps = dict[str, Callable[[Db], bool]]
"""By name. A step does one batch in the transaction that it is given and says whether there may be more."""


@dataclass(frozen=True, slots=True)
class Chore:
    """A periodic task."""

    job: str
    every_seconds: float
    steps: Steps


def chores(settings: Settings, *, improves: bool = False) -> tuple[Chore, ...]:
    """All periodic tasks. ``improves``: we hand over what waits for Improve."""
    trim = partial(upkeep.trim_trail, hours=settings.trail_hours)
    purge = partial(deliveries.purge, days=settings.delivery_log_days)
    tidy: Steps = {
        "answers": upkeep.expire_answers,
        "trail": trim,
        "strays": deliveries.give_up_strays,
        "deliveries": purge,
        "leases": upkeep.trim_leases,
        "participants": participants.purge,
    }
    mend: Steps = {
        "captures": sweep.sweep_captures,
        "events": sweep.sweep_events,
        "erasures": sweep.sweep_erasures,
        "leases": partial(end_leases, max_attempts=settings.max_attempts),
        "queues": sweep.sweep_queues,
        "traces": settle_next,
        "seen": sweep.be_seen,
    }
    if improves:
        mend["improve"] = announce_overlooked
    keep: Steps = {
        "runs": retention.purge_runs,
        "traces": spans.purge_loose,
        "tombstones": retention.purge_tombstones,
    }
    return (Chore(HOUSEKEEPING, 300, tidy), Chore(SWEEP, 60, mend), Chore(RETENTION, 300, keep))


def tend(runner: Runner, chore: Chore) -> None:
    """Run the steps of ``chore``. A step that another process is at is left to it."""
    failures = []
    with measured(chore.job):
        for name, step in chore.steps.items():
            try:
                _run(runner, f"{chore.job} {name}", step)
            except DatabaseBusy:
                raise
            except Exception as error:
                log.log.exception("step failed", step=name)
                failures.append(error)
        if failures:
            raise failures[0]


def _run(runner: Runner, name: str, step: Callable[[Db], bool]) -> None:
    for _ in range(MOST_ROUNDS):
        with transaction(runner.engine) as tx:
            if not upkeep.alone(tx, name) or not step(tx):
                return

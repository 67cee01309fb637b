"""How a task runs: it claims its rows of the outbox, brings about their effect and marks them done, in one transaction.

A message is only a hint: delivered twice, late, or to two workers at once, each row takes effect once. A row that fails
is counted and comes again, ever later, until it is dead; a database that is away is nobody's failure.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import psycopg2.errors
from sqlalchemy import Engine

from app import log, metrics
from app.config import Settings
from app.domain.errors import DatabaseBusy
from app.domain.jobs import Ids
from app.store import outbox
from app.store.engine import create_engine, reading
from app.transaction import Transaction, transaction

STATEMENT_TIMEOUT_MS = 60_000
LOCK_TIMEOUT_MS = 10_000

STEPPING_SECONDS = 30.0
"""How long a job in steps goes on before it lets others have their turn."""

REST = 0.5
"""Of the time that a step took, so much is left to others before the next: recordings share the database's cores."""

PATIENCE = (0.05, 0.2, 1.0, 3.0, 6.0)
"""Waits, in seconds, before a busy database is tried again; then the jobs are left to come again by themselves."""

Effect = Callable[[Transaction, str, list[Ids]], bool | None]
"""What jobs of one tenant do: given the transaction, the tenant and the ids of each job. True: there is more to do."""


@dataclass(frozen=True, slots=True)
class Handler:
    """What does the jobs of one name.

    ``together``: up to a hundred in one transaction, by set-based statements; else each in its own. An effect that
    gives true is committed and called again, in a transaction of its own, until it doesn't.
    """

    job: str
    effect: Effect
    together: bool = True


@contextmanager
def measured(name: str) -> Iterator[None]:
    """Time and count a task. A database that is away ends it without an error: what is left to do comes again."""
    started, outcome = metrics.now(), "failed"
    try:
        yield
        outcome = "done"
    except DatabaseBusy as error:
        outcome = "retried"
        log.log.warning("database away; the task will come again", error=str(error.__cause__))
    finally:
        metrics.task(name, outcome, metrics.now() - started)


class Runner:
    """Runs handlers in this process. Its connections are made after the fork: a pool must not be shared by two."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._engine: Engine | None = None
        self._pid = 0

    @property
    def engine(self) -> Engine:
        if self._engine is None or self._pid != os.getpid():
            self._pid = os.getpid()
            self._engine = create_engine(
                self._settings.database_url,
                pool_size=2,
                statement_timeout_ms=STATEMENT_TIMEOUT_MS,
                lock_timeout_ms=LOCK_TIMEOUT_MS,
                application_name="corrigenda-worker",
            )
        return self._engine

    def run(self, handler: Handler, tenant_id: str, row_ids: Sequence[int], *, wary: bool = False) -> None:
        """Do what is still to be done of ``row_ids``. ``wary``: a worker was lost over them before."""
        with measured(handler.job):
            for pause in PATIENCE:
                try:
                    return self._perform(handler, tenant_id, row_ids, wary)
                except DatabaseBusy as error:
                    log.log.info("database busy; trying again", error=str(error.__cause__), seconds=pause)
                    time.sleep(pause * random.uniform(0.5, 1.5))
            self._perform(handler, tenant_id, row_ids, wary)

    def _perform(self, handler: Handler, tenant_id: str, row_ids: Sequence[int], wary: bool) -> None:
        if handler.together and len(row_ids) > 1 and not wary:
            try:
                return self._attempt(handler, tenant_id, row_ids)
            except Exception as error:
                if not _is_the_jobs_fault(error):
                    raise
                log.log.warning("jobs failed together; each is tried alone", exc_info=True)
        for row_id in self._in_order(tenant_id, row_ids):
            self._alone(handler, tenant_id, row_id, wary)

    def _in_order(self, tenant_id: str, row_ids: Sequence[int]) -> list[int]:
        with reading(self.engine) as db:
            return outbox.by_failures(db, tenant_id, row_ids)

    def _alone(self, handler: Handler, tenant_id: str, row_id: int, wary: bool) -> None:
        if wary:  # counted before it starts, for if it takes this process down, nobody will count it after
            self._fail(handler, tenant_id, row_id, "its worker was lost", 1)
        try:
            self._attempt(handler, tenant_id, [row_id])
        except Exception as error:
            if not _is_the_jobs_fault(error):
                raise
            log.log.exception("job failed", jobIds=[row_id])
            self._fail(handler, tenant_id, row_id, _named(error), 0 if wary else 1)

    def _attempt(self, handler: Handler, tenant_id: str, row_ids: Sequence[int]) -> None:
        started, more = metrics.now(), True
        while more:
            began = metrics.now()
            with transaction(self.engine) as tx:
                rows = outbox.claim(tx, tenant_id, handler.job, row_ids)
                if not rows:
                    return
                with log.bound(correctionIds=_correction_ids([row.ids for row in rows])):
                    more = bool(handler.effect(tx, tenant_id, [row.ids for row in rows]))
                if not more:
                    outbox.finish(tx, tenant_id, rows)
                elif metrics.now() - started < STEPPING_SECONDS:
                    outbox.keep(tx, tenant_id, rows, self._settings.resend_seconds)
                else:  # others' turn; the relay sends it again at once
                    return outbox.keep(tx, tenant_id, rows, 0)
            if more:
                time.sleep(REST * (metrics.now() - began))
        metrics.jobs(handler.job, "done", len(rows))

    def _fail(self, handler: Handler, tenant_id: str, row_id: int, error: str, count: int) -> None:
        with transaction(self.engine) as tx:
            dead = outbox.fail(tx, tenant_id, row_id, error, self._settings.max_failures, count=count)
        metrics.jobs(handler.job, "dead" if dead else "failed", 1)
        if dead:
            log.log.error("job is dead: it failed too often", jobIds=[row_id], error=error)


def _is_the_jobs_fault(error: Exception) -> bool:
    """Whether trying again soon won't help. A statement that took too long is the job's, any other wait isn't."""
    return not isinstance(error, DatabaseBusy) or isinstance(error.__cause__, psycopg2.errors.QueryCanceled)


def _named(error: Exception) -> str:
    """The kind of ``error``, the constraint and the place, without its message, which may hold callers' words."""
    diag = getattr(error, "diag", None)
    constraint = getattr(diag, "constraint_name", None)
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    place = "" if trace is None else f" in {trace.tb_frame.f_code.co_name}, line {trace.tb_lineno}"
    return type(error).__name__ + (f" of {constraint}" if constraint else "") + place


def _correction_ids(jobs: Sequence[Ids]) -> list[str]:
    return [ids["correctionId"] for ids in jobs[:10] if "correctionId" in ids]

"""Outbox → broker. Takes rows that are due, groups them into messages and publishes them; several relays may run.

A row is marked as sent, to come again later, and committed *before* it is published: a worker that is quick finds no
lock, and a relay that dies in between costs one resend delay, never a job.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from sqlalchemy import Engine

from app import log, metrics
from app.config import Settings
from app.domain.errors import DatabaseBusy
from app.domain.jobs import ANNOUNCED, APART, DEFAULT_QUEUE, IMPROVE_QUEUE, QUEUE_OF
from app.store import heartbeats, outbox
from app.store.engine import create_engine
from app.store.outbox import Due
from app.transaction import transaction
from workers.broker import AWAY, Broker
from workers.celery import create_celery

ROWS = 1000
"""Most rows taken at once."""

PER_MESSAGE = 100
"""Most jobs of one message."""

MOST_MESSAGES = {DEFAULT_QUEUE: 2_000, IMPROVE_QUEUE: 10_000}
"""A queue with so many messages gets no more until some are consumed: the rest waits as rows, where it is safe."""

BUSY_SECONDS, IDLE_SECONDS, AWAY_SECONDS = 0.02, 0.15, 10.0
"""Waits between rounds: after one that found work; the longest without; the longest while something is away."""

HEARTBEAT_SECONDS = 15.0

STATEMENT_TIMEOUT_MS = 10_000

_AWAY: tuple[type[Exception], ...] = (DatabaseBusy, *AWAY)


class Sends(Protocol):
    """What the relay needs of a broker."""

    def depth(self, queue: str) -> int: ...

    def send(self, queue: str, task: str, kwargs: Mapping[str, Any]) -> None: ...

    def close(self) -> None: ...


class Relay:
    """One relay. ``round`` does what there is to do once; ``run`` goes on until ``stop`` is set."""

    def __init__(self, engine: Engine, broker: Sends, resend_seconds: float) -> None:
        self._engine = engine
        self._broker = broker
        self._resend_seconds = resend_seconds
        self._seen = 0.0

    def round(self) -> int:
        """Send what is due; how many rows that was."""
        return sum(self._lane(queue) for queue in MOST_MESSAGES)

    def run(self, stop: threading.Event) -> None:
        """Do rounds until ``stop``, more often while there is work, more rarely while something is away."""
        wait, away = BUSY_SECONDS, False
        while not stop.is_set():
            try:
                found = self.round()
                self._beat()
            except _AWAY as error:
                if not away:
                    log.log.warning("relay waits: broker or database away", error=str(error.__cause__ or error))
                away, wait = True, min(max(wait * 2, 0.5), AWAY_SECONDS)
            else:
                if away:
                    log.log.info("relay goes on: broker and database are back")
                away, wait = False, BUSY_SECONDS if found else min(wait * 1.5, IDLE_SECONDS)
            stop.wait(wait)
        self._broker.close()

    def _lane(self, queue: str) -> int:
        if self._broker.depth(queue) >= MOST_MESSAGES[queue]:
            return 0
        with transaction(self._engine) as tx:
            rows = outbox.take(tx, ROWS, self._resend_seconds, announcements=queue == IMPROVE_QUEUE)
        waiting, sent = messages(rows), list[Due]()
        try:
            while waiting:
                self._send(waiting[0])
                sent += waiting.pop(0)
        finally:
            self._settle(sent, [row for message in waiting for row in message])
        return len(rows)

    def _send(self, message: Sequence[Due]) -> None:
        job = message[0].job
        queue = QUEUE_OF.get(job, DEFAULT_QUEUE)
        self._broker.send(queue, job, payload(message))
        metrics.sent(job, len(message))

    def _settle(self, sent: Sequence[Due], unsent: Sequence[Due]) -> None:
        announced = [row for row in sent if row.job in ANNOUNCED]
        if announced or unsent:
            with transaction(self._engine) as tx:
                outbox.announced(tx, announced)
                outbox.give_back(tx, unsent)

    def _beat(self) -> None:
        if time.monotonic() - self._seen > HEARTBEAT_SECONDS:
            self._seen = time.monotonic()
            with transaction(self._engine) as tx:
                heartbeats.beat(tx, "relay")


def messages(rows: Sequence[Due]) -> list[list[Due]]:
    """``rows`` as messages: of one tenant and job each, at most ``PER_MESSAGE`` ids. What failed before goes alone."""
    made: list[list[Due]] = []
    open_: dict[tuple[str, str], list[Due]] = {}
    for row in rows:
        key = (row.tenant_id, row.job)
        fits = key in open_ and sum(map(_size, open_[key])) + _size(row) <= PER_MESSAGE
        if row.failures or not fits:
            made.append([row])
            if not row.failures:
                open_[key] = made[-1]
        else:
            open_[key].append(row)
    return made


def _size(row: Due) -> int:
    if row.job in APART:
        return PER_MESSAGE
    return len(row.ids["correctionIds"]) if row.job in ANNOUNCED else 1


def payload(message: Sequence[Due]) -> dict[str, Any]:
    """What a message says: the rows that it is about; an announcement the corrections themselves."""
    tenant_id, job = message[0].tenant_id, message[0].job
    if job in ANNOUNCED:
        return {"tenantId": tenant_id, "correctionIds": [i for row in message for i in row.ids["correctionIds"]]}
    return {"tenantId": tenant_id, "jobs": [row.id for row in message]}


def run_relay(settings: Settings) -> None:
    """Relay until SIGTERM or SIGINT. Returns when the round in hand is over."""
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    engine = create_engine(
        settings.database_url,
        pool_size=1,
        statement_timeout_ms=STATEMENT_TIMEOUT_MS,
        application_name="corrigenda-relay",
        durable=False,  # what it forgets in a crash, it sends again
    )
    log.log.info("relay started")
    Relay(engine, Broker(create_celery(settings)), settings.resend_seconds).run(stop)
    engine.dispose()
    log.log.info("relay stopped")

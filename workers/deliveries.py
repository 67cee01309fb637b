"""Sends messages to endpoints, in threads beside a worker's tasks: a receiver that hangs holds up no task.

What is due is in the database and taken under a lease, so any number of senders share it, and what one that died had in
hand is sent again when the lease is over.
"""

from __future__ import annotations

import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property

from sqlalchemy import Engine

from app import log, metrics
from app.channels.post import Post
from app.config import Settings
from app.domain.delivering import Outcome, Parcel
from app.domain.errors import DatabaseBusy
from app.services import deliver
from app.services.vault import Vault, open_vault
from app.store import sending
from app.store.engine import create_engine, reading
from app.transaction import transaction

SLOTS, FAILING_SLOTS = 8, 4
"""Messages on their way at once, and how many of them may be to endpoints whose last attempt went wrong."""

IDLE_SECONDS, AWAY_SECONDS = 1.0, 5.0
"""Longest waits for the next message: while none is due; after something went wrong, such as a database away."""

STOP_SECONDS = 20
"""How long a worker that ends waits for messages on their way."""

_PATIENCE = (0.2, 1.0, 5.0)


class Sender:
    """Takes what is due and sends it, up to ``SLOTS`` messages at once."""

    def __init__(self, engine: Engine, settings: Settings, post: Post | None = None) -> None:
        self._engine = engine
        self._settings = settings
        self._post = post or Post.of(settings)
        self._free = threading.Semaphore(SLOTS)
        self._failing_free = threading.Semaphore(FAILING_SLOTS)
        self._landed = threading.Event()
        self._pool = ThreadPoolExecutor(SLOTS, thread_name_prefix="deliver")

    @cached_property
    def _vault(self) -> Vault:
        with transaction(self._engine) as tx:
            return open_vault(tx, self._settings)

    def run(self, stop: threading.Event) -> None:
        """Send until ``stop``, then wait for what is on its way. Whatever goes wrong, it goes on."""
        while not stop.is_set():
            self._landed.clear()
            try:
                if not self.send_next():
                    self._landed.wait(self._wait())  # what landed may make room for the next to its endpoint
            except Exception as error:
                away = isinstance(error, DatabaseBusy)
                log.log.warning("deliveries wait", error=str(error.__cause__ or error), exc_info=not away)
                stop.wait(AWAY_SECONDS)
        self.close()

    def close(self) -> None:
        """Wait for what is on its way, and take nothing more."""
        self._pool.shutdown()

    def send_next(self) -> bool:
        """Begin to send the message whose turn it is, as soon as a slot is free; false if none is due."""
        self._free.acquire()
        parcel = None
        try:
            parcel = self._take()
        finally:
            if parcel is None:
                self._free.release()
        if parcel is not None:
            self._pool.submit(self._send, parcel)
        return parcel is not None

    def _take(self) -> Parcel | None:
        failing_too = self._failing_free.acquire(blocking=False)
        parcel = None
        try:
            with transaction(self._engine) as tx:
                parcel = deliver.take(tx, self._vault, healthy=not failing_too)
        finally:
            if failing_too and (parcel is None or not parcel.failing):
                self._failing_free.release()
        return parcel

    def _send(self, parcel: Parcel) -> None:
        ids = {"tenantId": parcel.tenant_id, "endpointId": parcel.endpoint_id, "deliveryId": parcel.delivery_id}
        try:
            with log.bound(**ids):
                outcome = self._outcome(parcel)
                log.log.info("delivery tried", status=outcome.status, error=outcome.error)
                metrics.delivery(parcel.kind, "delivered" if outcome.delivered else "failed")
                self._record(parcel, outcome)
        finally:
            self._free.release()
            if parcel.failing:
                self._failing_free.release()
            self._landed.set()

    def _outcome(self, parcel: Parcel) -> Outcome:
        try:
            return self._post.send(parcel)
        except Exception:
            log.log.exception("delivery failed by a fault of ours")
            return Outcome(error="it could not be sent: a fault of the service, see its log")

    def _record(self, parcel: Parcel, outcome: Outcome) -> None:
        """Write down how it went. If the database stays away, the message goes out again after its lease."""
        for pause in (*_PATIENCE, None):
            try:
                with transaction(self._engine) as tx:
                    return deliver.record(tx, parcel, outcome, random.random())
            except DatabaseBusy:
                if pause is None:
                    log.log.exception("attempt not recorded: database away")
                    return None
                time.sleep(pause)

    def _wait(self) -> float:
        with reading(self._engine) as db:
            seconds = sending.next_due(db)
        return IDLE_SECONDS if seconds is None or seconds <= 0 else min(seconds, IDLE_SECONDS)


class Beside:
    """A sender in a thread of its own, for a process that does other things."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin. The process must not fork after this."""
        engine = create_engine(
            self._settings.database_url,
            pool_size=4,
            statement_timeout_ms=10_000,
            lock_timeout_ms=5_000,
            application_name="corrigenda-sender",
        )
        sender = Sender(engine, self._settings)
        self._thread = threading.Thread(target=sender.run, args=(self._stop,), name="sender", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End, when what is on its way is done or ``STOP_SECONDS`` are over."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(STOP_SECONDS)

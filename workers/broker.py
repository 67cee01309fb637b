"""The relay's way to the broker: Celery's producer over one connection that never waits long and is made anew."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

from celery import Celery
from kombu.exceptions import KombuError, OperationalError
from redis.exceptions import RedisError

AWAY: tuple[type[Exception], ...] = (OperationalError, KombuError, RedisError, OSError)
"""What is raised while the broker can't be used."""


class Broker:
    """Publishes messages. After any error of ``AWAY`` the next call connects anew."""

    def __init__(self, app: Celery) -> None:
        self._app = app
        self._connection: Any = None
        self._producer: Any = None

    def depth(self, queue: str) -> int:
        """How many messages wait in ``queue``."""
        with self._dropped_on_error():
            return int(self._connected().default_channel.client.llen(queue))

    def send(self, queue: str, task: str, kwargs: Mapping[str, Any]) -> None:
        """Publish one message; returns when the broker has it."""
        with self._dropped_on_error():
            self._connected()
            self._app.send_task(task, kwargs=dict(kwargs), queue=queue, producer=self._producer, retry=False)

    def close(self) -> None:
        """Let go of the connection, if there is one."""
        connection, self._connection, self._producer = self._connection, None, None
        if connection is not None:
            with contextlib.suppress(*AWAY):
                connection.release()

    def _connected(self) -> Any:
        if self._connection is None:
            connection = self._app.connection_for_write()
            connection.ensure_connection(max_retries=1, timeout=5)
            self._connection = connection
            self._producer = self._app.amqp.Producer(connection, auto_declare=False)
        return self._connection

    @contextlib.contextmanager
    def _dropped_on_error(self) -> Any:
        try:
            yield
        except AWAY:
            self.close()
            raise

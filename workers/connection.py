"""The connection to the broker that workers, relay and beat use: kombu's, where it waits too long or stays deaf."""

from __future__ import annotations

from typing import Any

from kombu import Connection
from kombu.transport import redis, virtual

RECONNECT_SECONDS = 5
"""Longest wait before the broker is tried again."""


class InHand(redis.QoS):
    """What a worker took and hasn't acknowledged. It takes no more than there are places.

    With kombu's own, what couldn't be acknowledged keeps its place. A worker whose tasks all end while the broker is
    away has no place left then and listens to nothing, so that it never finds out that the connection is gone either.
    Here the place is free, acknowledged or not; the broker hands out again what it still has.
    """

    def ack(self, delivery_tag: Any) -> None:
        try:
            super().ack(delivery_tag)
        finally:
            virtual.QoS.ack(self, delivery_tag)

    def reject(self, delivery_tag: Any, requeue: bool = False) -> None:
        try:
            super().reject(delivery_tag, requeue)
        finally:
            virtual.QoS.ack(self, delivery_tag)


class Channel(redis.Channel):
    QoS = InHand


class Transport(redis.Transport):
    Channel = Channel


class Reconnecting(Connection):
    """kombu's connection, but it never waits longer than ``RECONNECT_SECONDS`` before it tries again."""

    def get_transport_cls(self) -> type[Transport]:
        return Transport

    def ensure_connection(self, *args: Any, **more: Any) -> Any:
        return super().ensure_connection(*args, **({"interval_max": RECONNECT_SECONDS} | more))

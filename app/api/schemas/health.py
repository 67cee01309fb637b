"""Shapes of what operators are shown."""

from __future__ import annotations

from app.api.schemas.base import Nested, OneOf, Shape, Text


class Alive(Shape):
    status = OneOf("alive", required=True)


class DatabaseState(Shape):
    """``revision`` is what the database is at, ``needs`` what this version of the service works with."""

    state = OneOf("ready", "not-migrated", "unreachable", required=True)
    revision = Text()
    needs = Text()


class BrokerState(Shape):
    state = OneOf("reachable", "unreachable", "not-configured", required=True)


class Ready(Shape):
    status = OneOf("ready", required=True)
    database = Nested(DatabaseState, required=True)
    broker = Nested(BrokerState, required=True)

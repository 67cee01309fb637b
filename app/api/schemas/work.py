"""Shapes of work items and of counts of them."""

from __future__ import annotations

from app.api.schemas.base import Instant, ListOf, Nested, Number, OneOf, PageQuery, PageShape, Shape, Text, Whole

_COUNT = (0, 1 << 53)
QUEUES = ("improve", "developer", "owner")
STATES = ("ready", "leased", "parked", "done", "withdrawn")


class WorkQuery(PageQuery):
    queue = OneOf(*QUEUES)
    state = OneOf(*STATES)
    project_id = Text(1)


class WorkItemShape(Shape):
    """One correction's place in a queue. `attempt` counts the leases handed out and not released."""

    work_item_id = Text(required=True)
    queue = OneOf(*QUEUES, required=True)
    state = OneOf(*STATES, required=True)
    attempt = Whole(*_COUNT, required=True)
    project_id = Text(required=True)
    correction_id = Text(required=True)
    ready_since = Instant(required=True)
    lease_expires_at = Instant()


class WorkPage(PageShape):
    data = ListOf(Nested(WorkItemShape), required=True)


class QueueStats(Shape):
    """How many items a queue has in each state; how long the oldest has been ready, if one is."""

    ready = Whole(*_COUNT, required=True)
    leased = Whole(*_COUNT, required=True)
    parked = Whole(*_COUNT, required=True)
    done = Whole(*_COUNT, required=True)
    withdrawn = Whole(*_COUNT, required=True)
    oldest_ready_seconds = Number(0)


class QueuesStats(Shape):
    improve = Nested(QueueStats, required=True)
    developer = Nested(QueueStats, required=True)
    owner = Nested(QueueStats, required=True)


class WorkStats(Shape):
    queues = Nested(QueuesStats, required=True)

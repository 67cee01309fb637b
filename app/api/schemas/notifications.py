"""Shapes of a principal's inbox."""

from __future__ import annotations

from app.api.schemas.base import Flag, Instant, JsonText, ListOf, Nested, PageQuery, PageShape, Shape, Text


class NotificationQuery(PageQuery):
    unread = Flag()


class NotificationShape(Shape):
    """Word of something that happened. `data` holds the ids that it is about."""

    id = Text(required=True)
    type = Text(required=True)
    at = Instant(required=True)
    read_at = Instant()
    data = JsonText("{", required=True)


class NotificationPage(PageShape):
    data = ListOf(Nested(NotificationShape), required=True)

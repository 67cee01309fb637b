"""Shapes of projects."""

from __future__ import annotations

from typing import Any

from marshmallow import post_load

from app.api.schemas.base import Instant, ListOf, Nested, PageShape, Shape, Text, Whole, name_id

_DAYS = (1, 36_500)


class RetentionWanted(Shape):
    """How many days ended runs, and superseded or removed corrections, are kept. `null`: for good."""

    runs_days = Whole(*_DAYS, allow_none=True)
    tombstones_days = Whole(*_DAYS, allow_none=True)


class ProjectWanted(Shape):
    """Fields that are left out stay as they are; `null` clears one."""

    name = Text(1, 256, allow_none=True)
    org_id = name_id(allow_none=True)
    retention = Nested(RetentionWanted, allow_none=True)

    @post_load
    def _to_columns(self, data: dict[str, Any], **_: Any) -> dict[str, Any]:
        if "retention" not in data:
            return data
        retention = data.pop("retention")
        if retention is None:
            retention = {"runs_days": None, "tombstones_days": None}
        return data | {f"retention_{name}": days for name, days in retention.items()}


class RetentionShape(Shape):
    runs_days = Whole(*_DAYS)
    tombstones_days = Whole(*_DAYS)


class ProjectShape(Shape):
    id = Text(required=True)
    tenant_id = Text(required=True)
    name = Text()
    org_id = Text()
    retention = Nested(RetentionShape)
    created_at = Instant(required=True)
    updated_at = Instant(required=True)


class ProjectPage(PageShape):
    data = ListOf(Nested(ProjectShape), required=True)

"""Shapes of the counts of corrections."""

from __future__ import annotations

from functools import cache
from importlib import resources
from typing import Any

from marshmallow import ValidationError, fields

from app.api.schemas.base import JsonSchema, ListOf, Nested, Number, Several, Shape, Text, Whole
from app.api.schemas.corrections import CorrectionFilters
from app.store.stats import GROUPS


@cache
def zone_names() -> frozenset[str]:
    """The names of the IANA time zone database."""
    return frozenset((resources.files("tzdata") / "zones").read_text("utf-8").split())


class Zone(fields.Field[str]):
    """The IANA name of a time zone."""

    def _deserialize(self, value: Any, attr: str | None, data: Any, **more: Any) -> str:
        if value not in zone_names():
            raise ValidationError("must be the IANA name of a time zone, such as Europe/Berlin")
        return str(value)

    def described(self) -> JsonSchema:
        return {"type": "string", "description": "The IANA name of a time zone.", "examples": ["Europe/Berlin"]}


class GroupBy(Several):
    """What to count by, at most two."""

    ordered = True

    def _deserialize(self, value: Any, attr: str | None, data: Any, **more: Any) -> list[str]:
        words = super()._deserialize(value, attr, data, **more)
        if len(words) > 2:
            raise ValidationError("takes at most two")
        return words

    def described(self) -> JsonSchema:
        return super().described() | {"maxItems": 2}


class StatsQuery(CorrectionFilters):
    """The list's filters, what to count by, and the zone that days are of."""

    group_by = GroupBy(*GROUPS)
    timezone = Zone(load_default="UTC")


class StatsGroup(Shape):
    """How many have the values in the fields that were grouped by; ``none`` where there is none."""

    day = Text()
    status = Text()
    sorted_to = Text()
    subject = Text()
    version = Text()
    corrector_group = Text()
    count = Whole(0, 1 << 53, required=True)


class StatsShape(Shape):
    """Counts that add up to the list. A median or rate of none is absent."""

    total = Whole(0, 1 << 53, required=True)
    groups = ListOf(Nested(StatsGroup), required=True)
    median_seconds_to_fix = Number(0)
    median_seconds_open = Number(0)
    reopen_rate = Number(0)

"""Shapes of agents and flows."""

from __future__ import annotations

from typing import Any

from marshmallow import ValidationError, post_load, validates

from app.api.schemas.base import Instant, ListOf, Nested, OneOf, PageShape, Shape, Text, name_id
from app.api.schemas.tokens import PrincipalShape
from app.domain.model import Principal


class OwnerWanted(Shape):
    kind = OneOf("user", "service", required=True)
    id = name_id(required=True)

    @post_load
    def _to_principal(self, data: dict[str, Any], **_: Any) -> Principal:
        return Principal(**data)


class SubjectWanted(Shape):
    """Fields that are left out stay as they are; `null` clears one."""

    name = Text(1, 256, allow_none=True)
    owners = ListOf(Nested(OwnerWanted), 0, 1000, allow_none=True)

    @validates("owners")
    def _each_once(self, owners: list[Principal] | None, **_: Any) -> None:
        repeated = {at: "is given twice" for at, owner in enumerate(owners or []) if owner in (owners or [])[:at]}
        if repeated:
            raise ValidationError(repeated)

    @post_load
    def _owners_are_a_tuple(self, data: dict[str, Any], **_: Any) -> dict[str, Any]:
        return data | ({"owners": tuple(data["owners"] or ())} if "owners" in data else {})


class RegisteredSubjectShape(Shape):
    """An agent or a flow. Owners are told of the corrections of its runs."""

    id = Text(required=True)
    tenant_id = Text(required=True)
    name = Text()
    owners = ListOf(Nested(PrincipalShape), required=True)
    created_at = Instant(required=True)
    updated_at = Instant(required=True)


class SubjectPage(PageShape):
    data = ListOf(Nested(RegisteredSubjectShape), required=True)

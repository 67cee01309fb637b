"""Shapes of what a person may change of a correction."""

from __future__ import annotations

from typing import Any

from marshmallow import ValidationError, post_load, validates_schema

from app.api.schemas.base import Nested, OneOf, Shape, Text, name_id
from app.api.schemas.corrections import QUEUES
from app.domain import links
from app.domain.changing import Change


class LinkWanted(Shape):
    """An Improve run or suggested change by its id, or a pull request by its address. Loads as the text to store."""

    kind = OneOf("improve-run", "suggested-change", "pull-request", required=True)
    id = name_id()
    url = Text(1, 4000)

    @validates_schema
    def _one_target(self, data: dict[str, Any], **_: Any) -> None:
        here, other = ("url", "id") if data.get("kind") == "pull-request" else ("id", "url")
        if here not in data:
            raise ValidationError("is required", here)
        if other in data:
            raise ValidationError(f"must be left out for a {data['kind']}", other)
        if here == "url" and not links.is_address(data["url"]):
            raise ValidationError("must be an absolute http or https URL", "url")

    @post_load
    def _text(self, data: dict[str, Any], **_: Any) -> str:
        return links.link_text(data["kind"], data.get("url") or data["id"])


class ChangeWanted(Shape):
    """A change: at least one of `sortedTo`, `status`, `link` and `note`. `reason` says why it is re-sorted."""

    sorted_to = OneOf(*QUEUES)
    reason = Text(1, 4000)
    status = OneOf("open", "being-fixed", "with-owner", "wont-fix")
    link = Nested(LinkWanted, allow_none=True)
    note = Text(1, 4000)

    @validates_schema
    def _says_something(self, data: dict[str, Any], **_: Any) -> None:
        if "reason" in data and "sorted_to" not in data:
            raise ValidationError("needs sortedTo", "reason")
        if not data:
            raise ValidationError("must have at least one of sortedTo, status, link and note")


def change_of(body: dict[str, Any]) -> Change:
    """What a loaded ``ChangeWanted`` asks for."""
    unlink = "link" in body and body["link"] is None
    return Change(**body, unlink=unlink)


class RemovalWanted(Shape):
    """Why a correction is removed."""

    note = Text(1, 4000)

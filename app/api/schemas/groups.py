"""Shapes of corrector groups."""

from __future__ import annotations

from typing import Any

from marshmallow import ValidationError, validates_schema

from app.api.schemas.base import (
    Instant,
    ListOf,
    Nested,
    Number,
    OneOf,
    PageQuery,
    PageShape,
    Shape,
    Text,
    Whole,
    name_id,
)


class GroupScopeWanted(Shape):
    """Where a group applies: the whole tenant, a project, or one agent in a project."""

    kind = OneOf("tenant", "project", "agent", required=True)
    project_id = Text(1)
    agent_id = name_id()

    @validates_schema
    def _ids_fit(self, data: dict[str, Any], **_: Any) -> None:
        kind = data.get("kind")
        for name, wire, kinds in (
            ("project_id", "projectId", ("project", "agent")),
            ("agent_id", "agentId", ("agent",)),
        ):
            if kind in kinds and name not in data:
                raise ValidationError("is required for this kind", wire)
            if kind is not None and kind not in kinds and name in data:
                raise ValidationError("must be left out for this kind", wire)


class AssertableByWanted(Shape):
    """Who may record under the group. Every part that is set must hold."""

    min_reviewer_role = OneOf("standard", "senior", "admin")
    principal_kinds = ListOf(OneOf("user", "service"), 1, 2)
    principal_ids = ListOf(name_id(), 1, 100)

    @validates_schema
    def _says_something(self, data: dict[str, Any], **_: Any) -> None:
        if not data:
            raise ValidationError("must have at least one of minReviewerRole, principalKinds, principalIds")


class GroupWanted(Shape):
    """A corrector group to be made."""

    name = Text(1, 100, required=True)
    weight = Number(0, required=True)
    description = Text()
    scope = Nested(GroupScopeWanted, required=True)
    assertable_by = Nested(AssertableByWanted)


class GroupChange(Shape):
    """What changes of a group: at least one field. ``assertableBy: null`` lifts the restriction."""

    weight = Number(0)
    description = Text()
    assertable_by = Nested(AssertableByWanted, allow_none=True)

    @validates_schema
    def _changes_something(self, data: dict[str, Any], **_: Any) -> None:
        if not data:
            raise ValidationError("must have at least one of weight, description, assertableBy")


class GroupScopeShape(Shape):
    kind = OneOf("tenant", "project", "agent", required=True)
    project_id = Text()
    agent_id = Text()


class AssertableByShape(Shape):
    """Who may record under the group. Only an admin of its scope sees ``principalIds``."""

    min_reviewer_role = OneOf("standard", "senior", "admin")
    principal_kinds = ListOf(OneOf("user", "service"))
    principal_ids = ListOf(Text())
    principal_count = Whole(1, 100)


class GroupShape(Shape):
    """A named class of correctors with a weight, perhaps restricted."""

    id = Text(required=True)
    name = Text(required=True)
    weight = Number(0, required=True)
    description = Text()
    scope = Nested(GroupScopeShape, required=True)
    assertable_by = Nested(AssertableByShape)
    created_at = Instant(required=True)
    updated_at = Instant(required=True)
    unregistered_at = Instant()


class GroupPage(PageShape):
    data = ListOf(Nested(GroupShape), required=True)


class GroupQuery(PageQuery):
    scope_kind = OneOf("tenant", "project", "agent")
    project_id = Text(1)
    agent_id = Text(1)

"""Shapes of tokens."""

from __future__ import annotations

from typing import Any

from marshmallow import ValidationError, validates_schema

from app.api.schemas.base import Instant, ListOf, Nested, OneOf, PageShape, Shape, Text, Whole, name_id


class PrincipalWanted(Shape):
    """Whom a new token speaks for. A service takes no id: it is the token's."""

    kind = OneOf("user", "service", required=True)
    id = name_id()

    @validates_schema
    def _id_fits(self, data: dict[str, Any], **_: Any) -> None:
        if data.get("kind") == "user" and "id" not in data:
            raise ValidationError("is required for a user", "id")
        if data.get("kind") == "service" and "id" in data:
            raise ValidationError("must be left out for a service: its id is the token's", "id")


class GrantShape(Shape):
    scope_kind = OneOf("tenant", "org", "project", required=True)
    scope_id = name_id()
    permission = OneOf("read", "write", "admin", required=True)

    @validates_schema
    def _id_fits(self, data: dict[str, Any], **_: Any) -> None:
        if data.get("scope_kind") == "tenant" and "scope_id" in data:
            raise ValidationError("must be left out for the tenant", "scopeId")
        if data.get("scope_kind") in ("org", "project") and "scope_id" not in data:
            raise ValidationError("is required for an org or project", "scopeId")


class TokenWanted(Shape):
    name = Text(1, 256, required=True)
    principal = Nested(PrincipalWanted)
    role = OneOf("admin", "member", required=True)
    grants = ListOf(Nested(GrantShape), 0, 1000)
    reviewer_role = OneOf("standard", "senior", "admin")
    expires_at = Instant()


class PrincipalShape(Shape):
    """Who did something: the authenticated caller, never a typed name."""

    kind = OneOf("user", "service", required=True)
    id = Text(required=True)


class TokenShape(Shape):
    id = Text(required=True)
    name = Text(required=True)
    principal = Nested(PrincipalShape, required=True)
    role = OneOf("admin", "member", required=True)
    grants = ListOf(Nested(GrantShape), required=True)
    reviewer_role = OneOf("standard", "senior", "admin")
    created_at = Instant(required=True)
    expires_at = Instant()
    revoked_at = Instant()


class TokenIssued(TokenShape):
    """A token with its secret, which is shown this once."""

    token = Text(required=True)


class ParticipantTokenWanted(Shape):
    """For whom the token shall be, about which run, and for how long."""

    run_id = Text(1, required=True)
    participant_id = Text(1, required=True)
    ttl_seconds = Whole(1, 86_400, required=True)


class ParticipantTokenIssued(Shape):
    """The token, which is shown this once. It expires with the token that made it, if that is earlier."""

    token = Text(required=True)
    expires_at = Instant(required=True)


class Me(Shape):
    tenant_id = Text(required=True)
    principal = Nested(PrincipalShape, required=True)
    role = OneOf("admin", "member", required=True)
    grants = ListOf(Nested(GrantShape), required=True)
    reviewer_role = OneOf("standard", "senior", "admin")


class TokenPage(PageShape):
    data = ListOf(Nested(TokenShape), required=True)

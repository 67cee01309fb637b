"""Shapes of notification endpoints and deliveries."""

from __future__ import annotations

from typing import Any

from marshmallow import ValidationError, validates_schema

from app.api.schemas.base import Instant, ListOf, Nested, OneOf, PageShape, Shape, Text, Whole, name_id
from app.api.schemas.tokens import PrincipalShape
from app.domain.messages import DIGEST, EVENTS


class WhoseShape(Shape):
    """A user or a service token."""

    kind = OneOf("user", "service", required=True)
    id = name_id(required=True)


class EndpointScopeShape(Shape):
    """Whose events: the tenant's, a project's, or those of the subjects that a principal owns."""

    kind = OneOf("tenant", "project", "principal", required=True)
    project_id = Text(1)
    principal = Nested(WhoseShape)

    @validates_schema
    def _parts_fit(self, data: dict[str, Any], **_: Any) -> None:
        kind = data.get("kind")
        for name, wire, its in (("project_id", "projectId", "project"), ("principal", "principal", "principal")):
            if kind == its and name not in data:
                raise ValidationError("is required for this kind", wire)
            if kind is not None and kind != its and name in data:
                raise ValidationError("must be left out for this kind", wire)


class EndpointWanted(Shape):
    """An endpoint to be registered. ``target``: a URL, for ``email`` a mail address."""

    kind = OneOf("webhook", "email", "slack", required=True)
    target = Text(1, 2048, required=True)
    events = ListOf(OneOf(*EVENTS), 1, required=True)
    scope = Nested(EndpointScopeShape, required=True)
    digest_seconds = Whole(0, 86_400, load_default=60)


class EndpointChange(Shape):
    """What changes of an endpoint: at least one field."""

    target = Text(1, 2048)
    events = ListOf(OneOf(*EVENTS), 1)
    digest_seconds = Whole(0, 86_400)

    @validates_schema
    def _changes_something(self, data: dict[str, Any], **_: Any) -> None:
        if not data:
            raise ValidationError("must have at least one of target, events, digestSeconds")


class EndpointShape(Shape):
    """Where word of events goes. Of a Slack hook's ``target`` the last part is not shown.

    ``endedAt`` and ``endedReason``: its receiver answered that it is ``gone``, or was ``failing`` for three days.
    """

    id = Text(required=True)
    kind = OneOf("webhook", "email", "slack", required=True)
    target = Text(required=True)
    events = ListOf(OneOf(*EVENTS), required=True)
    scope = Nested(EndpointScopeShape, required=True)
    digest_seconds = Whole(0, 86_400, required=True)
    made_by = Nested(PrincipalShape, required=True)
    created_at = Instant(required=True)
    updated_at = Instant(required=True)
    unregistered_at = Instant()
    ended_at = Instant()
    ended_reason = OneOf("gone", "failing")


class EndpointRegistered(EndpointShape):
    """An endpoint; a webhook's with its ``secret``, which is shown this once."""

    secret = Text()


class EndpointWithSecret(EndpointShape):
    """A webhook with its new secret, which is shown this once."""

    secret = Text(required=True)


class EndpointPage(PageShape):
    data = ListOf(Nested(EndpointShape), required=True)


class AttemptShape(Shape):
    """One attempt: the HTTP status that came back, or what went wrong, or both."""

    at = Instant(required=True)
    status = Whole(100, 999)
    error = Text()


class DeliveryShape(Shape):
    """One message to an endpoint. ``id`` is its ``webhook-id``."""

    id = Text(required=True)
    type = OneOf(*EVENTS, DIGEST, required=True)
    status = OneOf("pending", "delivered", "failed", required=True)
    attempts = ListOf(Nested(AttemptShape), required=True)


class DeliveryPage(PageShape):
    data = ListOf(Nested(DeliveryShape), required=True)

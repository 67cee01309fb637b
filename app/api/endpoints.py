"""``/v1/notification-endpoints``."""

from __future__ import annotations

from typing import Any

import orjson

from app.api.routes import Answer, Call, Routes, after, answer, page
from app.api.schemas.base import PageQuery
from app.api.schemas.endpoints import (
    DeliveryPage,
    DeliveryShape,
    EndpointChange,
    EndpointPage,
    EndpointRegistered,
    EndpointShape,
    EndpointWanted,
    EndpointWithSecret,
)
from app.channels.guard import Guard
from app.domain import times
from app.domain.endpoints import Endpoint, EndpointScope
from app.domain.errors import (
    DeliveryNotFound,
    NotificationEndpointEnded,
    NotificationEndpointNotFound,
    PermissionDenied,
    ProjectNotFound,
)
from app.domain.model import Principal
from app.domain.permission import reach
from app.services import keep_endpoints
from app.services.keep_endpoints import Keeping, Wanted
from app.services.vault import open_vault
from app.store import deliveries, endpoints

routes = Routes("notification endpoints")


@routes.add(
    "POST",
    "/v1/notification-endpoints",
    body=EndpointWanted,
    answers={201: EndpointRegistered},
    errors=(PermissionDenied, ProjectNotFound),
)
def register(call: Call) -> Answer:
    """Register a notification endpoint.

    Needs admin on its scope; a principal registers its own. A webhook's secret is in this answer alone.
    """
    body, scope = call.body, call.body["scope"]
    wanted = Wanted(
        body["kind"],
        body["target"],
        _once(body["events"]),
        scope["kind"],
        scope.get("project_id"),
        Principal(**scope["principal"]) if "principal" in scope else None,
        body["digest_seconds"],
    )
    endpoint, secret = keep_endpoints.register(call.tx, _keeping(call), call.caller, wanted)
    return answer(_shown(endpoint) | ({"secret": secret} if secret else {}), 201, secret=secret is not None)


@routes.add("GET", "/v1/notification-endpoints", query=PageQuery, answers={200: EndpointPage})
def list_endpoints(call: Call) -> Answer:
    """List the notification endpoints that the caller manages, newest first; those that ended too."""
    limit, managed = call.query["limit"], reach(call.caller, "admin")
    rows = endpoints.newest(call.db, call.caller.tenant_id, managed, call.caller.principal, limit + 1, after(call))
    return page(call, rows, limit, lambda one: (one.created_at, one.id), lambda one: orjson.dumps(_shown(one)).decode())


@routes.add(
    "GET",
    "/v1/notification-endpoints/{endpointId}",
    answers={200: EndpointShape},
    errors=(PermissionDenied,),
    missing=NotificationEndpointNotFound,
)
def fetch(call: Call) -> Answer:
    """Fetch a notification endpoint, in use or not. Needs admin on its scope, or to be its principal."""
    return answer(_shown(keep_endpoints.managed(call.db, call.caller, call.path["endpointId"])))


@routes.add(
    "PATCH",
    "/v1/notification-endpoints/{endpointId}",
    body=EndpointChange,
    answers={200: EndpointShape},
    errors=(PermissionDenied, NotificationEndpointEnded),
    missing=NotificationEndpointNotFound,
)
def change(call: Call) -> Answer:
    """Change a notification endpoint's target, events or digest time. The secret stays."""
    changes = dict(call.body)
    if "events" in changes:
        changes["events"] = _once(changes["events"])
    endpoint_id = call.path["endpointId"]
    return answer(_shown(keep_endpoints.change(call.tx, _keeping(call), call.caller, endpoint_id, changes)))


@routes.add(
    "POST",
    "/v1/notification-endpoints/{endpointId}/unregister",
    answers={200: EndpointShape},
    errors=(PermissionDenied,),
    missing=NotificationEndpointNotFound,
)
def unregister(call: Call) -> Answer:
    """Take a notification endpoint out of use.

    What waits for it fails. Doing it twice answers the same.
    """
    return answer(_shown(keep_endpoints.unregister(call.tx, call.caller, call.path["endpointId"])))


@routes.add(
    "POST",
    "/v1/notification-endpoints/{endpointId}/test",
    answers={202: DeliveryShape},
    errors=(PermissionDenied, NotificationEndpointEnded),
    missing=NotificationEndpointNotFound,
)
def test(call: Call) -> Answer:
    """Send a ``notification.test`` at once.

    How it went is in the delivery that this answers with: see the endpoint's deliveries.
    """
    return Answer(202, keep_endpoints.send_test(call.tx, call.caller, call.path["endpointId"]))


@routes.add(
    "POST",
    "/v1/notification-endpoints/{endpointId}/rotate-secret",
    answers={200: EndpointWithSecret},
    errors=(PermissionDenied, NotificationEndpointEnded),
    missing=NotificationEndpointNotFound,
)
def rotate_secret(call: Call) -> Answer:
    """Give a webhook a new secret, which is in this answer alone.

    For a while (24 hours unless the operator says otherwise) messages are signed with the one before, too.
    """
    keeping, endpoint_id = _keeping(call), call.path["endpointId"]
    endpoint, secret = keep_endpoints.rotate_secret(call.tx, keeping, call.caller, endpoint_id)
    return answer(_shown(endpoint) | {"secret": secret}, secret=True)


@routes.add(
    "GET",
    "/v1/notification-endpoints/{endpointId}/deliveries",
    query=PageQuery,
    answers={200: DeliveryPage},
    errors=(PermissionDenied,),
    missing=NotificationEndpointNotFound,
)
def list_deliveries(call: Call) -> Answer:
    """List an endpoint's deliveries with every attempt, newest first."""
    endpoint = keep_endpoints.managed(call.db, call.caller, call.path["endpointId"])
    limit = call.query["limit"]
    rows = deliveries.newest(call.db, call.caller.tenant_id, endpoint.id, limit + 1, after(call))
    return page(call, rows, limit, lambda row: row[:2], lambda row: row[2])


@routes.add(
    "POST",
    "/v1/notification-endpoints/{endpointId}/deliveries/{deliveryId}/redeliver",
    answers={202: DeliveryShape},
    errors=(PermissionDenied, NotificationEndpointEnded, DeliveryNotFound),
    missing=NotificationEndpointNotFound,
)
def redeliver(call: Call) -> Answer:
    """Send a delivery again at once, under its own id, also one that was delivered."""
    endpoint_id, delivery_id = call.path["endpointId"], call.path["deliveryId"]
    return Answer(202, keep_endpoints.redeliver(call.tx, call.caller, endpoint_id, delivery_id))


def _keeping(call: Call) -> Keeping:
    settings = call.service.settings
    vault = open_vault(call.tx, settings)
    return Keeping(vault, Guard(settings.allow_private_targets), settings.secret_overlap_hours)


def _once(events: list[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(events))


def _shown(endpoint: Endpoint) -> dict[str, Any]:
    shown = {
        "id": endpoint.id,
        "kind": endpoint.kind,
        "target": endpoint.target,
        "events": list(endpoint.events),
        "scope": _shown_scope(endpoint.scope),
        "digestSeconds": endpoint.digest_seconds,
        "madeBy": _shown_principal(endpoint.made_by),
        "createdAt": times.wire(endpoint.created_at),
        "updatedAt": times.wire(endpoint.updated_at),
        "unregisteredAt": times.wire(endpoint.unregistered_at) if endpoint.unregistered_at else None,
        "endedAt": times.wire(endpoint.ended_at) if endpoint.ended_at else None,
        "endedReason": endpoint.ended_reason,
    }
    return {name: value for name, value in shown.items() if value is not None}


def _shown_scope(scope: EndpointScope) -> dict[str, Any]:
    shown = {
        "kind": scope.kind,
        "projectId": scope.project.id if scope.project else None,
        "principal": _shown_principal(scope.principal) if scope.principal else None,
    }
    return {name: value for name, value in shown.items() if value is not None}


def _shown_principal(principal: Principal) -> dict[str, str]:
    return {"kind": principal.kind, "id": principal.id}

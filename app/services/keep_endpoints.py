"""Registers notification endpoints, changes them, and takes them out of use."""

from __future__ import annotations

import base64
import hashlib
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from app.channels.guard import Guard
from app.domain import messages, targets
from app.domain.endpoints import Endpoint, EndpointKind, EndpointScope, ScopeKind, may_manage
from app.domain.errors import (
    BadInput,
    DeliveryNotFound,
    NotificationEndpointEnded,
    NotificationEndpointNotFound,
    PermissionDenied,
)
from app.domain.model import Caller, Principal
from app.domain.permission import may
from app.domain.targets import TargetRefused
from app.services.projects import project_for
from app.services.vault import Vault
from app.store import clock, deliveries, endpoints
from app.store.endpoints import NewEndpoint, SealedTarget
from app.store.engine import Db
from app.store.ids import new_id

SECRET_BYTES = 32

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a new endpoint shall be. ``project_id`` or ``principal`` goes with ``scope_kind``."""

    kind: EndpointKind
    target: str
    events: tuple[str, ...]
    scope_kind: ScopeKind
    project_id: str | None = None
    principal: Principal | None = None
    digest_seconds: int = 60


@dataclass(frozen=True, slots=True)
class Keeping:
    """What keeping endpoints needs of the service."""

    vault: Vault
    guard: Guard
    overlap_hours: int


def register(tx: Db, keeping: Keeping, caller: Caller, wanted: Wanted) -> tuple[Endpoint, str | None]:
    """Register an endpoint. A webhook's secret is in the answer alone.

    :raises ProjectNotFound: if the caller knows no such project; ``PermissionDenied`` unless the caller manages the
        scope; ``BadInput`` for a target that messages may not go to.
    """
    scope = _scope(tx, caller, wanted)
    _need_manage(caller, scope)
    target = _sealed(keeping, wanted.kind, wanted.target)
    secret = new_webhook_secret() if wanted.kind == "webhook" else None
    new = NewEndpoint(
        new_id(), wanted.kind, target, wanted.events, scope, wanted.digest_seconds, caller.principal,
        keeping.vault.seal(secret) if secret else None,
    )  # fmt: skip
    endpoints.add(tx, caller.tenant_id, new)
    return _there(endpoints.find(tx, caller.tenant_id, new.id)), secret


def managed(db: Db, caller: Caller, endpoint_id: str, *, lock: bool = False) -> Endpoint:
    """The endpoint, live or not.

    :raises NotificationEndpointNotFound: if the tenant has none of that id, or it is a project's that the caller can't
        read; ``PermissionDenied`` unless the caller manages it.
    """
    endpoint = endpoints.find(db, caller.tenant_id, endpoint_id, lock=lock)
    project = endpoint.scope.project if endpoint else None
    if endpoint is None or (project is not None and not may(caller, "read", project)):
        raise NotificationEndpointNotFound("There is no such notification endpoint.")
    _need_manage(caller, endpoint.scope)
    return endpoint


def managed_live(tx: Db, caller: Caller, endpoint_id: str) -> Endpoint:
    """The endpoint, held for the transaction.

    :raises NotificationEndpointNotFound, PermissionDenied: as ``managed``; ``NotificationEndpointEnded`` if it takes
        nothing any more.
    """
    endpoint = managed(tx, caller, endpoint_id, lock=True)
    if not endpoint.live:
        raise NotificationEndpointEnded("This endpoint is out of use; register a new one.")
    return endpoint


def change(tx: Db, keeping: Keeping, caller: Caller, endpoint_id: str, changes: Mapping[str, Any]) -> Endpoint:
    """Change ``target``, ``events`` or ``digest_seconds``; what is left out stays. What waits goes out sooner if
    ``digest_seconds`` says so.

    :raises NotificationEndpointNotFound, PermissionDenied, NotificationEndpointEnded: as ``managed_live``;
    :raises BadInput: for a target that messages may not go to.
    """
    kind = managed(tx, caller, endpoint_id).kind
    target = _sealed(keeping, kind, changes["target"]) if "target" in changes else None  # before anything is locked
    managed_live(tx, caller, endpoint_id)
    digest_seconds = changes.get("digest_seconds")
    endpoints.change(
        tx, caller.tenant_id, endpoint_id, target=target, events=changes.get("events"), digest_seconds=digest_seconds
    )
    if digest_seconds is not None:
        deliveries.hasten(tx, caller.tenant_id, endpoint_id, digest_seconds)
    return _there(endpoints.find(tx, caller.tenant_id, endpoint_id))


def unregister(tx: Db, caller: Caller, endpoint_id: str) -> Endpoint:
    """Take an endpoint out of use, and fail what waits for it; doing it twice changes nothing.

    :raises NotificationEndpointNotFound, PermissionDenied: as ``managed``.
    """
    managed(tx, caller, endpoint_id, lock=True)
    endpoints.unregister(tx, caller.tenant_id, endpoint_id)
    deliveries.give_up(tx, caller.tenant_id, endpoint_id)
    return _there(endpoints.find(tx, caller.tenant_id, endpoint_id))


def rotate_secret(tx: Db, keeping: Keeping, caller: Caller, endpoint_id: str) -> tuple[Endpoint, str]:
    """Give a webhook a new secret, which is in the answer alone. The one before signs beside it for a while.

    :raises NotificationEndpointNotFound, PermissionDenied, NotificationEndpointEnded: as ``managed_live``;
    :raises BadInput: for an endpoint that has no secret.
    """
    endpoint = managed_live(tx, caller, endpoint_id)
    if endpoint.kind != "webhook":
        raise BadInput("Only a webhook has a secret.")
    secret = new_webhook_secret()
    endpoints.rotate(tx, caller.tenant_id, endpoint_id, keeping.vault.seal(secret), keeping.overlap_hours)
    return _there(endpoints.find(tx, caller.tenant_id, endpoint_id)), secret


def send_test(tx: Db, caller: Caller, endpoint_id: str) -> str:
    """Send a test message at once, whatever events the endpoint takes. The delivery's JSON.

    :raises NotificationEndpointNotFound, PermissionDenied, NotificationEndpointEnded: as ``managed_live``.
    """
    endpoint = managed_live(tx, caller, endpoint_id)
    body = messages.body(messages.TEST, clock.now(tx), {"endpointId": endpoint.id})
    delivery_id = deliveries.add_message(tx, caller.tenant_id, endpoint.id, messages.TEST, body)
    return _there(deliveries.show(tx, caller.tenant_id, endpoint.id, delivery_id))


def redeliver(tx: Db, caller: Caller, endpoint_id: str, delivery_id: str) -> str:
    """Send a delivery again, under its own id, whatever became of it. Its JSON.

    :raises NotificationEndpointNotFound, PermissionDenied, NotificationEndpointEnded: as ``managed_live``;
    :raises DeliveryNotFound: if the endpoint has none of that id.
    """
    endpoint = managed_live(tx, caller, endpoint_id)
    if not deliveries.again(tx, caller.tenant_id, endpoint.id, delivery_id):
        raise DeliveryNotFound("There is no such delivery.")
    return _there(deliveries.show(tx, caller.tenant_id, endpoint.id, delivery_id))


def new_webhook_secret() -> str:
    """A new secret as Standard Webhooks writes one."""
    return "whsec_" + base64.b64encode(secrets.token_bytes(SECRET_BYTES)).decode()


def _scope(tx: Db, caller: Caller, wanted: Wanted) -> EndpointScope:
    if wanted.project_id is None:
        return EndpointScope(wanted.scope_kind, principal=wanted.principal)
    project = project_for(tx, caller, wanted.project_id, "read")
    return EndpointScope("project", project)


def _need_manage(caller: Caller, scope: EndpointScope) -> None:
    if not may_manage(caller, scope):
        where = "the tenant" if scope.project is None else f"project {scope.project.id!r}"
        raise PermissionDenied(f"This needs 'admin' on {where}.", permission="admin")


def _sealed(keeping: Keeping, kind: EndpointKind, target: str) -> SealedTarget:
    try:
        if kind == "email":
            address = targets.email_target(target)
            return SealedTarget(address, _sha256(address.lower()))
        keeping.guard.check(target)
    except TargetRefused as refused:
        raise BadInput.at("/target", str(refused)) from None
    if kind == "slack":
        return SealedTarget(targets.shown_hook(target), _sha256(target), keeping.vault.seal(target))
    return SealedTarget(target, _sha256(target))


def _sha256(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


def _there(value: _T | None) -> _T:
    assert value is not None, "written in this transaction"
    return value

"""Sends what is due, one message at a time: take it, send it with no transaction open, record how that went."""

from __future__ import annotations

import json

from app.domain import messages
from app.domain.delivering import Next, Outcome, Parcel, after
from app.domain.endpoints import EndedReason
from app.services.vault import Vault
from app.store import deliveries, endpoints, notifications, sending
from app.store.engine import Db
from app.store.notifications import Notice
from app.store.sending import Taken


def take(tx: Db, vault: Vault, *, healthy: bool = False) -> Parcel | None:
    """The message whose turn it is, leased to us, or ``None``. ``healthy``: see ``store/sending.take``."""
    while (taken := sending.take(tx, healthy=healthy)) is not None:
        body = taken.body if taken.body is not None else _fixed_body(tx, taken)
        if body is not None:
            return _parcel(taken, body, vault)
    return None


def _fixed_body(tx: Db, taken: Taken) -> str | None:
    """What a message that collected until now says from now on; ``None``, and it is gone, if that is nothing."""
    total, bodies, type = sending.collected(tx, taken.tenant_id, taken.delivery_id, messages.MOST_IN_DIGEST)
    if total == 0:
        sending.drop(tx, taken.tenant_id, taken.delivery_id)
        return None
    message = messages.message(type, bodies, total, taken.at)
    sending.fix_body(tx, taken.tenant_id, taken.delivery_id, message.type, message.body)
    return message.body


def _parcel(taken: Taken, body: str, vault: Vault) -> Parcel:
    target = taken.target if taken.target_sealed is None else vault.open(taken.target_sealed) or ""
    sealed = (taken.secret_sealed, taken.former_secret_sealed)
    secrets = tuple(secret for each in sealed if each is not None and (secret := vault.open(each)) is not None)
    return Parcel(
        taken.tenant_id, taken.delivery_id, taken.endpoint_id, taken.kind, target, body, secrets, taken.lease,
        taken.tries, taken.failing,
    )  # fmt: skip


def record(tx: Db, parcel: Parcel, outcome: Outcome, jitter: float) -> None:
    """Log the attempt, and end the delivery or let it wait for the next. ``jitter`` is from 0 to 1.

    Whoever lost the lease meanwhile only logs, unless the message was delivered: that counts whoever did it.
    """
    tenant_id, delivery_id = parcel.tenant_id, parcel.delivery_id
    held = sending.hold(tx, tenant_id, delivery_id)
    if held is None:
        return
    sending.log_attempt(tx, tenant_id, delivery_id, outcome.status, outcome.error)
    if not outcome.delivered and (not held.pending or held.lease != parcel.lease):
        return
    _apply(tx, parcel, after(outcome, parcel.tries + 1, jitter, held.first_tried_at, held.last_success_at))


def _apply(tx: Db, parcel: Parcel, next: Next) -> None:
    tenant_id, delivery_id = parcel.tenant_id, parcel.delivery_id
    if next.status == "delivered":
        sending.note_success(tx, tenant_id, parcel.endpoint_id)
    else:
        sending.note_failure(tx, tenant_id, parcel.endpoint_id)
    if next.wait is not None:
        sending.retry(tx, tenant_id, delivery_id, next.wait)
    else:
        sending.end(tx, tenant_id, delivery_id, "delivered" if next.status == "delivered" else "failed")
    if next.ends is not None:
        _end_endpoint(tx, tenant_id, parcel.endpoint_id, next.ends)


def _end_endpoint(tx: Db, tenant_id: str, endpoint_id: str, reason: EndedReason) -> None:
    """Take the endpoint out of use and tell its makers, once."""
    if not endpoints.end(tx, tenant_id, endpoint_id, reason):
        return
    deliveries.give_up(tx, tenant_id, endpoint_id)
    endpoint = endpoints.find(tx, tenant_id, endpoint_id)
    assert endpoint is not None, "it ended in this transaction"
    data = {"endpointId": endpoint.id, "kind": endpoint.kind, "target": endpoint.target, "reason": reason}
    said = json.dumps(data)
    ended = [Notice(maker, messages.ENDPOINT_ENDED, endpoint.id, reason, said) for maker in endpoint.makers]
    notifications.add(tx, tenant_id, ended)

"""``/v1/work/claims`` and what follows one: whoever works takes items under leases."""

from __future__ import annotations

import orjson

from app.api.routes import Answer, Call, Routes, answer
from app.api.schemas.claims import ClaimsShape, ClaimWanted, CompletionWanted, ReleaseWanted, RenewalWanted
from app.api.schemas.work import WorkItemShape
from app.domain import times
from app.domain.errors import LeaseLost, PermissionDenied, WorkItemNotFound
from app.services import claim
from app.services.claim import Claim
from app.store.leases import Wanted

routes = Routes("work")


@routes.add("POST", "/v1/work/claims", body=ClaimWanted, answers={200: ClaimsShape})
def claim_work(call: Call) -> Answer:
    """Claim work.

    Leases waiting items of projects that the caller may write, each to one claimer at a time: the oldest of each
    subject first, the subjects taking turns. An item whose lease expires can be claimed again, and is parked after too
    many attempts. A released lease is no attempt.
    """
    claims = claim.claim(call.tx, call.caller, Wanted(**call.body), call.service.settings.max_attempts)
    return Answer(200, f'{{"items":[{",".join(map(_shown, claims))}]}}')


def _shown(one: Claim) -> str:
    head = {
        "workItemId": one.item_id, "queue": one.queue, "leaseToken": one.token,
        "leaseExpiresAt": times.wire(one.expires_at), "attempt": one.attempt,
    }  # fmt: skip
    return f'{orjson.dumps(head).decode()[:-1]},"correction":{one.correction}}}'


@routes.add(
    "POST",
    "/v1/work/{workItemId}/renew",
    body=RenewalWanted,
    answers={200: WorkItemShape},
    errors=(PermissionDenied, LeaseLost),
    missing=WorkItemNotFound,
)
def renew_lease(call: Call) -> Answer:
    """Renew a lease: it lasts so many seconds from now. Needs write on the item's project."""
    body = call.body
    item = claim.renew(call.tx, call.caller, call.path["workItemId"], body["lease_token"], body["lease_seconds"])
    return answer(item.shown())


@routes.add(
    "POST",
    "/v1/work/{workItemId}/release",
    body=ReleaseWanted,
    answers={200: WorkItemShape},
    errors=(PermissionDenied, LeaseLost),
    missing=WorkItemNotFound,
)
def release_lease(call: Call) -> Answer:
    """Give an item back.

    It can be claimed again after the delay, and the lease doesn't count as an attempt. Needs write on the item's
    project.
    """
    body = call.body
    item_id, token = call.path["workItemId"], body["lease_token"]
    item = claim.release(call.tx, call.caller, item_id, token, body["delay_seconds"], body.get("reason"))
    return answer(item.shown())


@routes.add(
    "POST",
    "/v1/work/{workItemId}/complete",
    body=CompletionWanted,
    answers={200: WorkItemShape},
    errors=(PermissionDenied, LeaseLost),
    missing=WorkItemNotFound,
)
def complete_item(call: Call) -> Answer:
    """Complete an item, and change its correction by the outcome.

    In the queue `improve` the correction is changed by `fix-job`, in the others by the caller. Needs write on the
    item's project.
    """
    body = call.body
    item = claim.complete(call.tx, call.caller, call.path["workItemId"], body["lease_token"], body["outcome"])
    return answer(item.shown())


@routes.add(
    "POST",
    "/v1/work/{workItemId}/requeue",
    answers={200: WorkItemShape},
    errors=(PermissionDenied,),
    missing=WorkItemNotFound,
)
def requeue_item(call: Call) -> Answer:
    """Put a parked or delayed item back, its attempts counted anew.

    An item that is leased, or has ended, stays as it is. Needs write on the item's project.
    """
    most = call.service.settings.max_attempts
    return answer(claim.requeue(call.tx, call.caller, call.path["workItemId"], most).shown())

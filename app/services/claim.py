"""Work is claimed, kept, given back and completed by whoever holds its lease; nobody else changes it meanwhile."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from app.domain import jobs
from app.domain.changing import Change
from app.domain.errors import LeaseLost, WorkItemNotFound
from app.domain.leasing import LostReason, lost
from app.domain.model import FIX_JOB, Actor, Caller, ProjectRef, Queue
from app.domain.permission import may, need, reach
from app.domain.routing import Place, queue_of
from app.services import change
from app.services.fold import fold_pending
from app.services.route import sync
from app.store import leases, outbox, standings, work
from app.store.engine import Db
from app.store.leases import Leased, Parked, Wanted
from app.store.work import Item


@dataclass(frozen=True, slots=True)
class Claim:
    """A lease just handed out. ``correction`` is the JSON of the correction with its copy."""

    item_id: str
    correction_id: str
    queue: Queue
    token: str
    expires_at: datetime
    attempt: int
    correction: str


def claim(tx: Db, caller: Caller, wanted: Wanted, max_attempts: int) -> list[Claim]:
    """Lease what waits to ``caller``, up to the limit, from projects that it may write.

    Oldest first within a subject of a project; the subjects take turns, also from one claim to the next.
    """
    tenant_id = caller.tenant_id
    ready_again(tx, tenant_id, max_attempts)
    within, projects = reach(caller, "write"), None
    if not within.everything or wanted.project_id is not None or wanted.subject is not None:
        projects = leases.projects_of(tx, tenant_id, within, wanted.project_id)
    tokens = [secrets.token_urlsafe(32) for _ in range(wanted.limit)]
    digests = [leases.digest(token) for token in tokens]
    found = leases.claim(tx, tenant_id, wanted, projects, caller.principal, digests)
    corrections = leases.with_copies(tx, tenant_id, [lease.correction_id for lease in found])
    return [_claim(wanted.queue, token, lease, corrections) for token, lease in zip(tokens, found, strict=False)]


def _claim(queue: Queue, token: str, lease: Leased, corrections: dict[str, str]) -> Claim:
    shown = corrections[lease.correction_id]
    return Claim(lease.item_id, lease.correction_id, queue, token, lease.expires_at, lease.attempt, shown)


def ready_again(tx: Db, tenant_id: str, max_attempts: int) -> None:
    """Put back what was held for too long or delayed until now."""
    leases.wake(tx, tenant_id)
    _, parked = leases.lapse(tx, tenant_id, max_attempts)
    _tell_parked(tx, parked)


def end_leases(tx: Db, max_attempts: int) -> bool:
    """End leases whose time is over, of all tenants, where nobody claims; true if there may be more."""
    count, parked = leases.lapse(tx, None, max_attempts)
    _tell_parked(tx, parked)
    return count == leases.BATCH


def _tell_parked(tx: Db, parked: Sequence[Parked]) -> None:
    for one in parked:
        told = jobs.notify_parked(one.correction_id, one.id, one.queue, one.attempt, one.at)
        outbox.put(tx, one.tenant_id, [told])


def renew(tx: Db, caller: Caller, item_id: str, token: str, lease_seconds: int) -> Item:
    """Let the lease last ``lease_seconds`` from now.

    :raises WorkItemNotFound, PermissionDenied, LeaseLost: in this order.
    """
    _hold_found(tx, caller, item_id, token)
    return leases.renew(tx, caller.tenant_id, item_id, lease_seconds)


def release(tx: Db, caller: Caller, item_id: str, token: str, delay_seconds: int, reason: str | None) -> Item:
    """Give the item back: it can be claimed after the delay, and the lease doesn't count as an attempt.

    :raises WorkItemNotFound, PermissionDenied, LeaseLost: in this order.
    """
    _hold_found(tx, caller, item_id, token)
    return leases.release(tx, caller.tenant_id, item_id, delay_seconds, reason)


def give_up(
    tx: Db, caller: Caller, item_id: str, token: str, max_attempts: int, delay_seconds: int, reason: str
) -> bool:
    """End the lease as an attempt that came to nothing: the item can be claimed after the delay, or is parked if that
    was the last attempt, which is returned.

    :raises WorkItemNotFound, PermissionDenied, LeaseLost: in this order.
    """
    _hold_found(tx, caller, item_id, token)
    parked = leases.give_up(tx, caller.tenant_id, item_id, max_attempts, delay_seconds, reason)
    if parked is not None:
        _tell_parked(tx, [parked])
    return parked is not None


def complete(tx: Db, caller: Caller, item_id: str, token: str, outcome: Change) -> Item:
    """End the item and change its correction, as an Improve job in the queue ``improve``, else as the caller.

    What was accepted before is applied to the correction first: it may be fixed by now.

    :raises WorkItemNotFound, PermissionDenied, LeaseLost: in this order;
    :raises BadInput: if the outcome can't hold.
    """
    tenant_id = caller.tenant_id
    correction_id, project = _find(tx, caller, item_id)
    place_of = standings.place_of(tx, tenant_id, correction_id)
    held = place_of and standings.hold(tx, tenant_id, correction_id, project, place_of[1])
    if held is None:
        raise WorkItemNotFound("There is no such work item.")
    folded, following = fold_pending(tx, held) if held.live else (held.standing, [])
    place = Place(folded.status, folded.sorted_to, held.superseded)
    queue = _hold(tx, tenant_id, item_id, token, place)
    item = leases.finish(tx, tenant_id, item_id)
    by = FIX_JOB if queue == "improve" else Actor.of(caller.principal)
    change.write(tx, held.changed(folded), outcome, by, caller.principal, following)
    return item


def requeue(tx: Db, caller: Caller, item_id: str, max_attempts: int) -> Item:
    """Let a parked or delayed item be claimed at once, its attempts counted anew, and announce it to Improve if it is
    its. One that is leased or ended stays as it is.

    :raises WorkItemNotFound, PermissionDenied: unless the caller has write on its project.
    """
    correction_id, _ = _find(tx, caller, item_id)
    place = _place_of(tx, caller.tenant_id, correction_id)
    ready_again(tx, caller.tenant_id, max_attempts)  # holds items, so it comes after what may have to wait
    _, last = leases.hold(tx, caller.tenant_id, item_id)
    if last.reason is None and queue_of(place) != last.queue:
        sync(tx, caller.tenant_id, [correction_id])
    item = leases.requeue(tx, caller.tenant_id, item_id)
    if item.queue == "improve" and item.state == "ready":
        outbox.put(tx, caller.tenant_id, [jobs.improve([correction_id])])
    return item


def _find(tx: Db, caller: Caller, item_id: str) -> tuple[str, ProjectRef]:
    found = leases.find(tx, caller.tenant_id, item_id)
    if found is None or not may(caller, "read", found[1]):
        raise WorkItemNotFound("There is no such work item.")
    need(caller, "write", found[1])
    return found


def _hold_found(tx: Db, caller: Caller, item_id: str, token: str) -> None:
    correction_id, _ = _find(tx, caller, item_id)
    _hold(tx, caller.tenant_id, item_id, token, _place_of(tx, caller.tenant_id, correction_id))


def _place_of(tx: Db, tenant_id: str, correction_id: str) -> Place:
    """Where a found item's correction stands, held.

    :raises WorkItemNotFound: if retention took both since it was found.
    """
    place = work.lock_places(tx, tenant_id, [correction_id]).get(correction_id)
    if place is None:
        raise WorkItemNotFound("There is no such work item.")
    return place


def _hold(tx: Db, tenant_id: str, item_id: str, token: str, place: Place) -> Queue:
    """Hold the item, whose correction is held at ``place``, if ``token`` is of its lease; which queue it is in.

    :raises LeaseLost: if it isn't, or the lease is lost.
    """
    presented = leases.digest(token)
    current, last = leases.hold(tx, tenant_id, item_id)
    if secrets.compare_digest(current, presented):
        reason = lost(last, place)
    else:
        reason = leases.end_of(tx, tenant_id, item_id, presented) or "unknown"
    if reason is not None:
        raise LeaseLost(_WORDS[reason], reason=reason)
    return last.queue


_WORDS: dict[LostReason, str] = {
    "unknown": "No lease of this item has this token.",
    "expired": "The lease has expired.",
    "released": "The lease was released.",
    "completed": "The item was completed.",
    "superseded": "The correction was superseded.",
    "removed": "The correction was removed.",
    "re-sorted": "The correction was sorted to another queue.",
    "fixed": "The correction is fixed.",
    "wont-fix": "The correction won't be fixed.",
    "being-fixed": "The correction is being fixed.",
}

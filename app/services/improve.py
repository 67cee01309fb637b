"""Briefs for Improve: what waits of one subject in one project, claimed like anybody's work, handed over as one."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from app import log
from app.domain import jobs, json_text, links
from app.domain.changing import Change
from app.domain.errors import LeaseLost, WorkItemNotFound
from app.domain.model import Caller, Principal
from app.domain.weighing import expected, shown
from app.services import claim
from app.services.claim import Claim
from app.store import briefs, leases, outbox
from app.store.briefs import Lane, Said
from app.store.engine import Db
from app.store.leases import Wanted
from app.transaction import Transaction

MOST = 50
"""Most corrections of one brief."""

MOST_CHARACTERS = 8_000_000
"""A brief that is longer takes up no further corrections."""

_ROUND = 10
"""Corrections claimed at once: their copies may be large."""

LEASE_SECONDS = 600
"""Longer than a task may take."""

_FIRST_DELAY, _GROWTH, _LONGEST_DELAY = 60, 8, 6 * 3600
"""Seconds before a correction is tried again, and by how much each delay is longer than the one before. Five attempts
take more than seven hours: an endpoint that is down for a night has its briefs in the morning."""


@dataclass(frozen=True, slots=True)
class Brief:
    """What waits of a subject in a project. ``id`` is the same whenever it is of the same work items."""

    id: str
    tenant_id: str
    lane: Lane
    claims: tuple[Claim, ...]
    json: str


def take(tx: Db, tenant_id: str, lane: Lane, max_attempts: int) -> Brief | None:
    """Claim what waits of a subject in a project and make it a brief; ``None`` if nothing does."""
    claims = _claims(tx, tenant_id, lane, max_attempts)
    if not claims:
        return None
    key = "\n".join(sorted(one.item_id for one in claims))
    brief_id = f"brief-{hashlib.sha256(key.encode()).hexdigest()[:32]}"
    ids = [one.correction_id for one in claims]
    said, tried = briefs.said_of_runs(tx, tenant_id, ids), briefs.tried(tx, tenant_id, ids)
    parts = ",".join(_part(one, said, tried.get(one.correction_id, "[]")) for one in claims)
    project_id, subject = lane
    head = {"id": brief_id, "projectId": project_id, "subject": {"kind": subject.kind, "id": subject.id}}
    return Brief(brief_id, tenant_id, lane, claims, f'{json_text.dump(head)[:-1]},"corrections":[{parts}]}}')


def _claims(tx: Db, tenant_id: str, lane: Lane, max_attempts: int) -> tuple[Claim, ...]:
    """The oldest that wait; one alone if this is the last attempt at it: if it is what breaks the improver, it takes no
    others along."""
    claims = _claim(tx, tenant_id, lane, 1, max_attempts)
    if not claims or 1 < max_attempts <= claims[0].attempt:
        return tuple(claims)
    while len(claims) < MOST and sum(len(one.correction) for one in claims) < MOST_CHARACTERS:
        asked = min(_ROUND, MOST - len(claims))
        found = _claim(tx, tenant_id, lane, asked, max_attempts)
        claims += found
        if len(found) < asked:
            break
    return tuple(claims)


def _claim(tx: Db, tenant_id: str, lane: Lane, limit: int, max_attempts: int) -> list[Claim]:
    wanted = Wanted("improve", *lane, limit=limit, lease_seconds=LEASE_SECONDS)
    return claim.claim(tx, _improve(tenant_id), wanted, max_attempts)


def _part(one: Claim, said: Sequence[Said], tried: str) -> str:
    """A correction as a claim shows it, its weight, what all corrections of its run expect, and what was tried."""
    (own,) = [each for each in said if each.correction_id == one.correction_id]
    of_run = [each.weighed for each in said if each.run_id == own.run_id]
    head = {"workItemId": one.item_id, "attempt": one.attempt, "weight": shown(own.weighed.weight)}
    return (
        f'{json_text.dump(head)[:-1]},"correction":{one.correction},"expected":{json_text.dump(expected(of_run))}'
        f',"earlierAttempts":{tried}}}'
    )


def handed_over(tx: Transaction, brief: Brief, improve_run_id: str | None) -> None:
    """Mark the brief's corrections as being fixed by the Improve run, which has the brief's id if none of its own.

    Those whose lease was lost meanwhile are left alone. What else waits of the subject is announced.
    """
    link = links.link_text("improve-run", improve_run_id or brief.id)
    for one in _in_order(brief.claims):
        try:
            with tx.attempt():
                outcome = Change(status="being-fixed", link=link)
                claim.complete(tx, _improve(brief.tenant_id), one.item_id, one.token, outcome)
        except (LeaseLost, WorkItemNotFound) as lost:
            log.log.info("lease was lost before its outcome", workItemId=one.item_id, **lost.details)
    _announce_next(tx, brief)


def _announce_next(tx: Db, brief: Brief) -> None:
    waiting = briefs.next_of(tx, brief.tenant_id, brief.lane)
    if waiting is not None:
        outbox.put(tx, brief.tenant_id, [jobs.improve([waiting])])


def give_up(tx: Transaction, brief: Brief, reason: str, max_attempts: int) -> None:
    """Count an attempt that came to nothing at each of the brief's items: it waits longer the more there were, and is
    parked after ``max_attempts``. After one that was alone, the next is announced: it isn't to blame."""
    caller = _improve(brief.tenant_id)
    parked = False
    for one in _in_order(brief.claims):
        delay = min(_FIRST_DELAY * _GROWTH ** min(one.attempt - 1, 9), _LONGEST_DELAY)
        try:
            with tx.attempt():
                parked = claim.give_up(tx, caller, one.item_id, one.token, max_attempts, delay, reason)
        except (LeaseLost, WorkItemNotFound) as lost:
            log.log.info("lease was lost before it was given up", workItemId=one.item_id, **lost.details)
    if parked and len(brief.claims) == 1:
        _announce_next(tx, brief)


def announce_overlooked(tx: Db) -> bool:
    """Announce anew what has waited for over a minute: its announcement was lost, or its delay is over. Never more."""
    leases.wake(tx, None)
    for tenant_id, correction_ids in briefs.overlooked(tx).items():
        outbox.put(tx, tenant_id, [jobs.improve(chunk) for chunk in _hundreds(correction_ids)])
    return False


def _hundreds(ids: Sequence[str]) -> Iterable[Sequence[str]]:
    return (ids[start : start + 100] for start in range(0, len(ids), 100))


def _in_order(claims: Sequence[Claim]) -> list[Claim]:
    """In the order in which everybody locks corrections."""
    return sorted(claims, key=lambda one: one.correction_id)


def _improve(tenant_id: str) -> Caller:
    return Caller(tenant_id, Principal("service", "improve"), "improve", "admin")

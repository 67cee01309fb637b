"""Leases of work items: whether a holder still has one, and if not, why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from app.domain.model import Queue
from app.domain.routing import EndedReason, Place, ended_reason, queue_of

ItemState = Literal["ready", "leased", "parked", "done", "withdrawn"]
LeaseEnd = Literal["released", "expired"]
LostReason = Literal[EndedReason, LeaseEnd, "completed", "unknown"]


@dataclass(frozen=True, slots=True)
class LastLease:
    """A work item as its last holder left it. ``over``: its time is past. ``ended``: how it ended, if it did.

    ``reason`` is why the item itself ended, if it did.
    """

    queue: Queue
    state: ItemState
    ended: LeaseEnd | None
    over: bool
    reason: EndedReason | Literal["completed"] | None


def lost(last: LastLease, place: Place) -> LostReason | None:
    """Why the last holder of an item no longer has it, the correction standing at ``place``; ``None`` if it has.

    What ended the item says more than that the lease would be over by now.
    """
    if last.ended == "released":
        return "released"
    if last.reason is not None:
        return last.reason
    if queue_of(place) != last.queue:
        return ended_reason(place)
    if last.ended == "expired" or last.over:
        return "expired"
    return None

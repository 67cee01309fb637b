"""Which queue, if any, a correction waits in, and why it left one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from app.domain.model import WAITING, Queue, Status

EndedReason = Literal["superseded", "removed", "re-sorted", "fixed", "wont-fix", "being-fixed"]


@dataclass(frozen=True, slots=True)
class Place:
    """All of a correction that decides where it waits."""

    status: Status
    sorted_to: Queue | None
    superseded: bool


def queue_of(place: Place) -> Queue | None:
    """The queue in which the correction waits for somebody; unsorted ones wait in none."""
    if place.superseded or place.status not in WAITING:
        return None
    return place.sorted_to


def ended_reason(place: Place) -> EndedReason:
    """Why the correction no longer waits where it did."""
    if place.superseded:
        return "superseded"
    if place.status in WAITING:
        return "re-sorted"
    ended: EndedReason = place.status  # type: ignore[assignment]  # the other statuses are reasons
    return ended

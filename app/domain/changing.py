"""What a person, or an Improve job through its lease, may change, and what follows from it.

Always true of a live correction: ``with-owner`` means that it is sorted to the owner, and ``open`` that it isn't.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from app.domain.errors import BadInput
from app.domain.model import Actor, Queue, Sorted, Standing, Status


@dataclass(frozen=True, slots=True)
class Change:
    """What is asked for. ``status`` is none of ``fixed`` and ``removed``, which nobody sets by hand.

    ``link`` is a link's JSON text; ``unlink`` takes away the one that there is.
    """

    sorted_to: Queue | None = None
    reason: str | None = None
    status: Status | None = None
    link: str | None = None
    unlink: bool = False
    note: str | None = None


def change(standing: Standing, asked: Change, by: Actor, now: datetime) -> Standing:
    """Where the correction stands after ``asked``, as far as sorting and status go.

    :raises BadInput: if the status that is asked for can't hold with the sorting.
    """
    queue = _queue(standing, asked)
    if queue is not None and (asked.sorted_to is not None or queue != standing.sorted_to):
        standing = replace(standing, sorted_to=queue, sorted=Sorted(by, now, asked.reason))
    if asked.status is not None:
        return replace(standing, status=asked.status, fixed_in=None, reopened_in=None)
    if asked.sorted_to is not None:
        return replace(standing, status=_implied(standing.status, asked.sorted_to))
    return standing


def remove(standing: Standing) -> Standing:
    """Where a removed correction stands, for good."""
    return replace(standing, status="removed", fixed_in=None, reopened_in=None)


def _queue(standing: Standing, asked: Change) -> Queue | None:
    """The queue that it will be sorted to."""
    if asked.status == "with-owner":
        if asked.sorted_to not in (None, "owner"):
            raise BadInput.at("/status", f"with-owner can't hold with sortedTo {asked.sorted_to}")
        return "owner"
    queue = asked.sorted_to or standing.sorted_to
    if asked.status == "open" and queue == "owner":
        raise BadInput.at("/status", "open can't hold while it is sorted to the owner: re-sort it too")
    return queue


def _implied(status: Status, queue: Queue) -> Status:
    """What a re-sort alone makes of ``status``."""
    if queue == "owner":
        return "with-owner" if status in ("open", "being-fixed") else status
    return "open" if status == "with-owner" else status

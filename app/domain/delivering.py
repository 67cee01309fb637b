"""What follows an attempt to deliver: delivered, tried again later, or given up."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from app.domain.endpoints import EndedReason, EndpointKind

_FIRST, _LONGEST, _RETRIES = 5, 6 * 3600, 23

WAITS: tuple[int, ...] = tuple(min(_FIRST * 2**n, _LONGEST) for n in range(_RETRIES))
"""Seconds before each retry: doubling from 5 s to 6 h, about three days in all."""

_MOST_ASKED = 3600
"""The longest wait, in seconds, that a receiver's ``Retry-After`` can ask for."""


@dataclass(frozen=True, slots=True)
class Parcel:
    """One message on its way, with all that sending it needs. ``secrets`` are those that sign it, newest first.

    ``lease`` tells apart the times that it was taken; ``tries`` counts the attempts before this one;
    ``failing``: the endpoint's last attempt went wrong.
    """

    tenant_id: str
    delivery_id: str
    endpoint_id: str
    kind: EndpointKind
    target: str
    body: str
    secrets: tuple[str, ...] = ()
    lease: int = 0
    tries: int = 0
    failing: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """How an attempt went. ``status`` is the HTTP status, ``error`` says what went wrong, without secrets."""

    status: int | None = None
    error: str | None = None
    retry_after: int | None = None
    accepted: bool = False
    """Taken by a channel that has no HTTP status: a mail server."""

    @property
    def delivered(self) -> bool:
        return self.accepted or (self.status is not None and 200 <= self.status < 300)


@dataclass(frozen=True, slots=True)
class Next:
    """What becomes of a delivery, and of its endpoint: ``wait`` when it stays pending, ``ends`` when that is over."""

    status: Literal["pending", "delivered", "failed"]
    wait: timedelta | None = None
    ends: EndedReason | None = None


def wait_before(retry: int, jitter: float) -> timedelta | None:
    """How long to wait before retry number ``retry`` (from 1), or ``None`` when there is none any more.

    ``jitter`` from 0 to 1 moves the wait by a fifth either way.
    """
    if retry > len(WAITS):
        return None
    return timedelta(seconds=WAITS[retry - 1] * (0.8 + 0.4 * jitter))


def after(
    outcome: Outcome, tries: int, jitter: float, first_tried_at: datetime | None, last_success_at: datetime | None
) -> Next:
    """What follows ``outcome`` of attempt number ``tries``.

    A receiver that answers 410 is gone. One that took nothing at all while a message was tried for three days has
    failed for good.
    """
    if outcome.delivered:
        return Next("delivered")
    if outcome.status == 410:
        return Next("failed", ends="gone")
    wait = wait_before(tries, jitter)
    if wait is None:
        took_another = last_success_at is not None and first_tried_at is not None and last_success_at > first_tried_at
        return Next("failed", ends=None if took_another else "failing")
    asked = timedelta(seconds=min(outcome.retry_after or 0, _MOST_ASKED))
    return Next("pending", wait=max(wait, asked))

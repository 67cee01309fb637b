"""When a correction is fixed, and when it is reopened.

Deploys, pins, unpins and test runs of one project and subject are a log. At each of its events this one rule decides
on the corrections that the event concerns. ``app/store/transitions.py`` has the same rule as SQL, for many at once.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal

from app.domain.model import RULE, FixedIn, How, Principal, ReopenedIn, Sorted, Standing, Status, Verdict

UNFIXED: frozenset[str] = frozenset({"open", "being-fixed", "with-owner"})
"""Statuses from which an event can fix a correction."""


@dataclass(frozen=True, slots=True)
class Running:
    """What a project runs of a subject, and how it came to. ``by`` is ``None`` when Latest moved."""

    version: str
    how: How
    by: Principal | None = None


@dataclass(frozen=True, slots=True)
class Occasion:
    """One event, as far as it concerns one correction; all of it as of that event.

    ``at``: when the event was accepted. ``verdict``: the newest one for the running version.
    ``resolved``: the event's deploy or pin named the correction.
    """

    at: datetime
    running: Running
    verdict: Verdict | None = None
    resolved: bool = False


@dataclass(frozen=True, slots=True)
class Corrected:
    """What never changes of a correction, and matters here: the version that its run ran, and whose word it is."""

    version: str
    end_user: bool


def decide(corrected: Corrected, standing: Standing, occasion: Occasion) -> Standing | None:
    """Where the correction stands after the event, or ``None`` if it stays as it is.

    ``standing`` is that of a live correction: what was superseded or removed is never decided on.
    """
    if standing.status in UNFIXED and _fixes(corrected, standing, occasion):
        return _fixed(standing, occasion)
    if standing.status == "fixed" and occasion.verdict == "wrong":
        return _reopened(corrected, standing, occasion)
    return None


def fold(corrected: Corrected, standing: Standing, occasions: Iterable[Occasion]) -> list[tuple[Occasion, Standing]]:
    """The transitions that ``occasions`` make, in their order: which one, and where the correction stands after it."""
    made = []
    for occasion in occasions:
        after = decide(corrected, standing, occasion)
        if after is not None:
            made.append((occasion, after))
            standing = after
    return made


def _fixes(corrected: Corrected, standing: Standing, occasion: Occasion) -> bool:
    """A version that was right all along fixes nothing, unless the correction was reopened meanwhile."""
    if occasion.verdict is None:
        return occasion.resolved
    elsewhere = occasion.running.version != corrected.version
    return occasion.verdict == "right" and (elsewhere or standing.reopened_in is not None)


def _fixed(standing: Standing, occasion: Occasion) -> Standing:
    running = occasion.running
    how: Literal["pin", "latest"] = "pin" if running.how in ("pin", "went-back") else "latest"
    fixed_in = FixedIn(how, occasion.at, running.version, running.by)
    return replace(standing, status="fixed", fixed_in=fixed_in, reopened_in=None)


def _reopened(corrected: Corrected, standing: Standing, occasion: Occasion) -> Standing:
    """Open again, or with its owner; one that nobody had sorted goes to Improve, so that somebody works on it."""
    running = occasion.running
    reopened_in = ReopenedIn(running.version, running.how, occasion.at, running.by)
    if standing.sorted_to is None and not corrected.end_user:
        standing = replace(standing, sorted_to="improve", sorted=Sorted(RULE, occasion.at))
    status: Status = "with-owner" if standing.sorted_to == "owner" else "open"
    return replace(standing, status=status, reopened_in=reopened_in)

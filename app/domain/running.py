"""What a deploy, a pin and an unpin make of what a project runs, and on which corrections each decides."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from app.domain.model import How, Principal
from app.domain.versions import how_of_pin

Decides = Literal["all", "named", "none"]
"""On which corrections of its project and subject an event decides. ``named``: by its test run or its ``resolves``."""


@dataclass(frozen=True, slots=True)
class Current:
    """What a project runs of a subject and how it came to. Without a ``version`` it runs none."""

    version: str | None = None
    how: How | None = None
    by: Principal | None = None
    pinned: bool = False


@dataclass(frozen=True, slots=True)
class Latest:
    """Latest of a subject, and the deploy that made it that. ``at`` is that deploy's."""

    version: str
    at: datetime
    deploy_id: str


def moves(latest: Latest | None, version: str, at: datetime) -> bool:
    """Whether a deploy of ``version`` as of ``at`` moves Latest: it is another version, and not by an older deploy."""
    return latest is None or (version != latest.version and at >= latest.at)


def pinned(before: Current, version: str, by: Principal, first_seen: Mapping[str, int]) -> Current:
    """What a project runs after a pin of ``version``."""
    return Current(version, how_of_pin(version, before.version, first_seen), by, pinned=True)


def unpinned(latest: Latest | None, by: Principal) -> Current:
    """What a project runs after an unpin: Latest, or nothing before any deploy."""
    return Current(latest.version if latest else None, "unpin", by)


def decides(before: Current, after: Current, names: bool) -> Decides:
    """On what an event decides that leads from ``before`` to ``after``, and ``names`` corrections or doesn't."""
    if after.version is None:
        return "none"
    if after.version != before.version:
        return "all"
    return "named" if names else "none"

"""Which of two versions is earlier, and how a project came to run one."""

from __future__ import annotations

from collections.abc import Mapping

from semver import Version

from app.domain.model import How


def earlier(version: str, than: str, first_seen: Mapping[str, int]) -> bool:
    """Whether ``version`` comes before ``than``.

    By semantic-version precedence (prereleases too) when both are semantic versions, else by ``first_seen``: the order
    in which deploys and pins of the subject first named them in the tenant.
    """
    if Version.is_valid(version) and Version.is_valid(than):
        return Version.parse(version) < Version.parse(than)
    return first_seen[version] < first_seen[than]


def how_of_pin(version: str, ran_before: str | None, first_seen: Mapping[str, int]) -> How:
    """How a project comes to run ``version`` by a pin, when it ran ``ran_before`` (``None``: nothing) just before."""
    if ran_before is not None and earlier(version, ran_before, first_seen):
        return "went-back"
    return "pin"

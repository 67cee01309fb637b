"""How a correction is sorted when it is recorded: the first rule that fits."""

from __future__ import annotations

from datetime import datetime

from app.domain.model import RULE, FixedIn, Sorted, Standing
from app.domain.recording import Said


def standing_at_save(said: Said, end_user: bool, now: datetime) -> Standing:
    """Where a new correction that says ``said`` stands. ``end_user``: an app's end user says it, and no expert."""
    if end_user:
        return Standing("open")
    if said.decisions == "wrong":
        return Standing("with-owner", "owner", _by_rule(now))
    if said.answer == "wrong" or any(item.verdict == "wrong" for item in said.items):
        return Standing("open", "improve", _by_rule(now))
    return Standing("fixed", fixed_in=FixedIn("recorded-right", now))


def _by_rule(now: datetime) -> Sorted:
    return Sorted(RULE, now)

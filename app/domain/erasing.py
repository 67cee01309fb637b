"""What can be erased: a run, the runs of a conversation, or what a participant said."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

TargetKind = Literal["run", "conversation", "participant"]


@dataclass(frozen=True, slots=True)
class Target:
    """What to erase. ``id``: the caller's id of it."""

    kind: TargetKind
    id: str

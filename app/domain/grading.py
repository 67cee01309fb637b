"""Observed calls against what a correction asks for: is what the agent did this time right?"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from app.domain.canonical import by_value
from app.domain.model import Verdict


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call that was made, or that should have been. ``args`` are values as ``json_text.parse`` gives them."""

    tool: str
    args: Mapping[str, Any]


def grade_decisions(
    should_call: Sequence[ToolCall], must_not_call: Iterable[str], observed: Sequence[ToolCall]
) -> Verdict:
    """Right when every entry of ``should_call`` gets an observed call of its own, and no forbidden tool was called."""
    forbidden = set(must_not_call)
    if any(call.tool in forbidden for call in observed):
        return "wrong"
    return "right" if _each_served(_servers(should_call, observed)) else "wrong"


def grade(decisions: Verdict, answer: Verdict | None) -> Verdict:
    """The verdict on the whole: right when every part is. ``answer`` is ``None`` when nothing was said of it."""
    return "right" if decisions == "right" and answer in (None, "right") else "wrong"


def _servers(should_call: Sequence[ToolCall], observed: Sequence[ToolCall]) -> list[list[int]]:
    """For each entry the calls that can serve it; as many as there are entries do, however many there are."""
    calls: dict[str, list[tuple[int, dict[str, Hashable]]]] = {}
    for at, call in enumerate(observed):
        calls.setdefault(call.tool, []).append((at, _keys(call.args)))
    servers = []
    for entry in should_call:
        wanted = _keys(entry.args).items()
        fitting = (at for at, args in calls.get(entry.tool, ()) if wanted <= args.items())
        servers.append([at for at, _ in zip(fitting, should_call, strict=False)])
    return servers


def _keys(args: Mapping[str, Any]) -> dict[str, Hashable]:
    return {name: by_value(value) for name, value in args.items()}


def _each_served(servers: Sequence[Sequence[int]]) -> bool:
    """Whether every entry can have a call of its own: maximum bipartite matching by augmenting paths."""
    entry_of: dict[int, int] = {}

    def serve(entry: int, tried: set[int]) -> bool:
        for call in servers[entry]:
            if call in tried:
                continue
            tried.add(call)
            if call not in entry_of or serve(entry_of[call], tried):
                entry_of[call] = entry
                return True
        return False

    return all(serve(entry, set()) for entry in range(len(servers)))

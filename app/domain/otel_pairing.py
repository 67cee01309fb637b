"""Which of the calls that models asked for a tool's span is of."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass

from app.domain import json_text
from app.domain.otel import Span
from app.domain.otel_calls import ToolCall, requested


@dataclass(frozen=True, slots=True, eq=False)
class Asked:
    """A call that a model asked for: by which span, the how-manieth of it, and what a tool may be told of it."""

    span: Span
    number: int
    call: ToolCall
    tellings: frozenset[Hashable]


def all_asked(models: Iterable[Span]) -> list[Asked]:
    """What models asked for, in their order."""
    return [
        Asked(span, number, call, _tellings(call.arguments))
        for span in models
        for number, call in enumerate(requested(span))
    ]


def take(waiting: list[Asked], call: ToolCall) -> ToolCall | None:
    """What a model asked for that ``call`` is, taken out of ``waiting``: by its id, else the first of the tool that
    nothing else is, one with the same arguments before others: tools that run at once start in any order.
    """
    named = (asked for asked in waiting if call.id and asked.call.id == call.id)
    found = next(named, None) or _of_tool(waiting, call)
    if found is None:
        return None
    waiting.remove(found)
    return found.call


def _of_tool(waiting: Iterable[Asked], call: ToolCall) -> Asked | None:
    first, told = None, _told(call.arguments)
    for asked in waiting:
        if asked.call.tool == call.tool and not (call.id and asked.call.id):
            if not told.isdisjoint(asked.tellings):
                return asked
            first = first or asked
    return first


def arguments(call: ToolCall, asked: ToolCall | None) -> str | None:
    """The tool's own where they have names. Some senders tell the value alone of a tool's only argument: then the
    model's, which name it."""
    own, models = call.arguments, asked.arguments if asked else None
    if own is None or (models is not None and models.startswith("{") and not own.startswith("{")):
        return models
    return own


def _tellings(text: str | None) -> frozenset[Hashable]:
    """All arguments, or the value of any of them."""
    if text is None or not text.startswith("{"):
        return frozenset()
    members = json_text.members(text)
    return frozenset([frozenset(members.items()), *members.values()])


def _told(text: str | None) -> frozenset[Hashable]:
    """What a tool's span tells: values as JSON texts. Text may be that of a value of any kind."""
    if text is None:
        return frozenset()
    if text.startswith("{"):
        return frozenset([frozenset(json_text.members(text).items())])
    value = json_text.parse(text) if text.startswith('"') else None
    return frozenset([text, value])

"""Spans of OpenTelemetry as they are kept, and which of two tellings of one span counts.

A span keeps what speaks of agents, tools and models, and its place in the trace; of others the place alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from app.domain import json_text

Attributes = Mapping[str, Any]
"""Values as JSON has them, by name."""

_SPOKEN_OF = (
    "gen_ai.", "openinference.span.kind", "input.", "output.", "llm.", "tool.", "tool_call.", "retrieval.",
    "agent.name", "graph.node.id", "session.id", "error.type",
)  # fmt: skip
_TELLING = ("gen_ai.", "openinference.span.kind")


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened during a span."""

    name: str
    attributes: Attributes


@dataclass(frozen=True, slots=True)
class Span:
    """One operation of a trace. Ids in lower-case hex, times in nanoseconds since 1970, 0 for none.

    ``local_parent``: its sender says that the parent is of the same process. ``version`` is the service's.
    """

    trace_id: str
    id: str
    parent_id: str | None
    name: str
    start: int
    end: int
    failed: bool = False
    local_parent: bool = False
    version: str | None = None
    attributes: Attributes = field(default_factory=dict)
    events: tuple[Event, ...] = ()


def reduced(span: Span) -> Span:
    """``span`` without what nobody here asks for, in one spelling: the same span sent again is equal."""
    events = tuple(event for event in map(_reduced_event, span.events) if event.attributes)
    telling = any(name.startswith(_TELLING) for name in span.attributes) or events
    attributes = _spoken_of(span.attributes) if telling else {}
    return Span(
        span.trace_id,
        span.id,
        span.parent_id if span.parent_id != span.id else None,
        span.name if telling else "",
        span.start,
        span.end,
        span.failed,
        span.local_parent,
        span.version,
        attributes,
        events,
    )


def _reduced_event(event: Event) -> Event:
    every = _ours(event.name)
    return Event(
        event.name, {name: event.attributes[name] for name in sorted(event.attributes) if every or _ours(name)}
    )


def _ours(name: str) -> bool:
    return name.startswith("gen_ai.")


def _spoken_of(attributes: Attributes) -> Attributes:
    return {name: attributes[name] for name in sorted(attributes) if name.startswith(_SPOKEN_OF)}


def text_of(span: Span) -> str:
    """The span as it is kept: all but its ids, as JSON."""
    kept: dict[str, Any] = {
        "parent": span.parent_id,
        "name": span.name,
        "start": span.start,
        "end": span.end,
        "failed": span.failed,
        "local": span.local_parent,
        "version": span.version,
        "attributes": span.attributes,
        "events": [[event.name, event.attributes] for event in span.events],
    }
    return json_text.dump(kept)


def span_of(trace_id: str, span_id: str, text: str) -> Span:
    """The span that was kept as ``text``."""
    kept = json_text.parse(text)
    return Span(
        trace_id,
        span_id,
        kept["parent"],
        kept["name"],
        kept["start"],
        kept["end"],
        kept["failed"],
        kept["local"],
        kept["version"],
        kept["attributes"],
        tuple(Event(name, attributes) for name, attributes in kept["events"]),
    )


def news(known: Mapping[str, str], spans: Iterable[Span]) -> dict[str, str]:
    """What ``spans`` of one trace say that isn't ``known``: texts by span id.

    Of two tellings of one span the one with the later end counts, then the greater text: whichever came first.
    """
    found: dict[str, str] = {}
    for span in spans:
        text, before = text_of(span), found.get(span.id, known.get(span.id))
        if before is None or _rank(span.end, text) > _rank(json_text.parse(before)["end"], before):
            found[span.id] = text
    return found


def _rank(end: int, text: str) -> tuple[int, str]:
    return end, text

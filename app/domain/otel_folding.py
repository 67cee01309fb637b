"""From the spans of a trace to its run: a function of which spans there are, never of how they came."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from app.domain import json_text, times
from app.domain import otel_calls as calling
from app.domain import otel_pairing as pairing
from app.domain import otel_reading as reading
from app.domain.model import RunContent, Subject
from app.domain.otel import Span
from app.domain.otel_calls import ToolCall
from app.domain.otel_reading import Role

_UNIX = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Place:
    """What a span is, and where in its trace: in which agent or workflow, nearest first, and in which node of a graph.

    ``awaited``: a span around it isn't there that its sender says is of the same process, and so will come.
    """

    role: Role | None
    actor: str | None
    node: str | None
    awaited: bool


@dataclass(frozen=True, slots=True)
class Folded:
    """The run, once its outermost span is there. ``waits``: there may be one, of which a span around it isn't there."""

    run: RunContent | None
    waits: bool


def fold(spans: Iterable[Span], project_id: str, *, patient: bool = True) -> Folded:
    """The run that ``spans`` of one trace come to. Not ``patient``: what is awaited won't come any more."""
    ordered = sorted(spans, key=lambda span: (span.start, span.id))
    trace = _Trace(ordered, _places(ordered))
    outermost = [span for span in trace.of(*reading.ACTORS) if trace.places[span.id].actor is None]
    settled = [span for span in outermost if not trace.places[span.id].awaited]
    if not settled and patient:
        return Folded(None, bool(outermost))
    roots = settled or outermost
    return Folded(_run(trace, roots[0], project_id) if roots else None, False)


def _places(spans: Sequence[Span]) -> dict[str, Place]:
    by_id = {span.id: span for span in spans}
    places: dict[str, Place] = {}
    for span in spans:
        path = _up_to_known(span, by_id, places)
        for inner in reversed(path):
            places[inner.id] = _place(inner, by_id, places)
    return places


def _up_to_known(span: Span, by_id: Mapping[str, Span], places: Mapping[str, Place]) -> list[Span]:
    """The span and those around it, innermost first, as far as their places aren't known; a circle is cut."""
    path: dict[str, Span] = {}
    at: Span | None = span
    while at is not None and at.id not in places and at.id not in path:
        path[at.id] = at
        at = by_id.get(at.parent_id) if at.parent_id else None
    return [*path.values()]


def _place(span: Span, by_id: Mapping[str, Span], places: Mapping[str, Place]) -> Place:
    role, node = reading.role_of(span), reading.node_id(span)
    around = places.get(span.parent_id) if span.parent_id else None
    if around is None:
        missing = span.parent_id is not None and span.parent_id not in by_id
        return Place(role, None, node, missing and span.local_parent)
    actor = span.parent_id if around.role in reading.ACTORS else around.actor
    return Place(role, actor, node or around.node, around.awaited)


@dataclass(frozen=True, slots=True)
class _Trace:
    """The spans in their order in time, and where each is."""

    spans: Sequence[Span]
    places: Mapping[str, Place]

    def of(self, *roles: str) -> list[Span]:
        return [span for span in self.spans if self.places[span.id].role in roles]


def _run(trace: _Trace, root: Span, project_id: str) -> RunContent:
    failed = reading.has_failed(root)
    models = trace.of("llm")
    own = [span for span in models if trace.places[span.id].actor == root.id] or models
    output = _first(reading.value_out, root, *reversed(own))
    run = RunContent(
        project_id,
        _subject(root, trace.places[root.id].role),
        "failed" if failed else "completed",
        b"",
        input=_first(reading.value_in, root, *own),
        output=output if failed else output or "[]",
        conversation_id=_first(reading.conversation_id, root, *trace.spans),
        messages=_messages(root, own),
        retrieved=_array(document for span in trace.of("retriever") for document in reading.documents(span)),
        calls=_array(_calls(trace)),
        started_at=_moment(root.start),
        finished_at=_moment(root.end),
    )
    return replace(run, content_sha256=_fingerprint(run))


def _subject(root: Span, role: Role | None) -> Subject:
    return Subject("flow" if role == "flow" else "agent", reading.subject_id(root), reading.version_of(root))


def _first(ask: Callable[[Span], str | None], *spans: Span) -> str | None:
    return next((said for span in spans if (said := ask(span)) not in (None, "null", "[]")), None)


def _messages(root: Span, models: Sequence[Span]) -> str | None:
    """The outermost span's own, if they go to the end; else those of the last model's call, which was told all that
    went before."""
    last = next((span for span in reversed(models) if reading.inputs(span) or reading.outputs(span)), root)
    teller = root if reading.outputs(root) else last
    return _array([*reading.inputs(teller), *reading.outputs(teller)])


def _calls(trace: _Trace) -> list[str]:
    """Each call once, in their order: as its tool's span tells it, else as a model asked for it and was answered."""
    models = trace.of("llm")
    results = {id: result for span in models for id, result in calling.answered(span)}
    waiting = pairing.all_asked(models)
    found: list[tuple[int, str, int, str]] = []
    for span in trace.of("tool"):
        call = calling.executed(span)
        asked = pairing.take(waiting, call)
        result = call.result or results.get(call.id or (asked and asked.id) or "")
        whole = replace(call, arguments=pairing.arguments(call, asked), result=result)
        found.append((span.start, span.id, 0, _shown(trace, span, whole)))
    for left in waiting:
        answered = replace(left.call, result=results.get(left.call.id or ""))
        found.append((left.span.end, left.span.id, left.number, _shown(trace, left.span, answered)))
    return [text for *_, text in sorted(found)]


def _shown(trace: _Trace, span: Span, call: ToolCall) -> str:
    node = trace.places[span.id].node
    parts = [f'"nodeId":{json_text.dump(node)}'] if node else []
    parts += [
        f'"toolId":{json_text.dump(call.tool)}',
        f'"arguments":{call.arguments or "null"}',
        f'"result":{call.result or "null"}',
    ]
    return "{" + ",".join(parts) + "}"


def _array(texts: Iterable[str]) -> str | None:
    joined = ",".join(texts)
    return f"[{joined}]" if joined else None


def _moment(nanoseconds: int) -> datetime | None:
    if not nanoseconds:
        return None
    return times.to_millisecond(_UNIX + timedelta(microseconds=nanoseconds // 1000))


def _fingerprint(run: RunContent) -> bytes:
    digest = hashlib.sha256()
    for field in fields(run):
        value: Any = getattr(run, field.name)
        digest.update(f"{field.name}={value!r}\n".encode())
    return digest.digest()

"""Calls of tools: as a model asked for them, as it was answered, as a tool's span tells them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from app.domain import json_text
from app.domain.otel import Span
from app.domain.otel_reading import (
    MAX_NAME,
    attribute,
    called,
    inputs,
    json_of,
    name_in,
    name_of,
    outputs,
    plain_value,
)

MAX_TOOL = 200
"""Characters of a tool's name."""
_UNPAIRED = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call of a tool: its arguments and its result as JSON texts, as far as they are known."""

    tool: str
    id: str | None
    arguments: str | None
    result: str | None = None


def requested(span: Span) -> Iterator[ToolCall]:
    """The calls of tools that a model asked for."""
    for message in outputs(span):
        members = json_text.members(message)
        for part in _parts(members, "parts"):
            if _word(part.get("type")) == "tool_call":
                yield _call(part)
        nested = json_text.members(members["message"]) if members.get("message", "").startswith("{") else {}
        for part in [*_parts(members, "tool_calls"), *_parts(nested, "tool_calls")]:
            function = part.get("function", "")
            yield _call(part | json_text.members(function) if function.startswith("{") else part)


def _call(part: dict[str, str]) -> ToolCall:
    arguments = part.get("arguments")
    inner = None if arguments is None else _inner(arguments)
    return ToolCall(_word(part.get("name")) or "unnamed", _word(part.get("id")), inner)


def answered(span: Span) -> Iterator[tuple[str, str]]:
    """The results of tools that a model was given, by the call's id."""
    for message in inputs(span):
        members = json_text.members(message)
        for part in _parts(members, "parts"):
            result = part.get("response", part.get("result"))
            if _word(part.get("type")) == "tool_call_response" and result is not None and (id := _word(part.get("id"))):
                yield id, result
        call_id = _word(members.get("tool_call_id", members.get("id")))
        if _word(members.get("role")) == "tool" and call_id and "content" in members:
            yield call_id, _inner(members["content"])


def _parts(members: dict[str, str], name: str) -> Iterator[dict[str, str]]:
    text = members.get(name, "")
    if text.startswith("["):
        yield from (json_text.members(part) for part in json_text.elements(text) if part.startswith("{"))


def executed(span: Span) -> ToolCall:
    """The call that a tool's span is of."""
    names = ("gen_ai.tool.name", "tool.name", "tool_call.function.name")
    ids = ("gen_ai.tool.call.id", "tool_call.id", "tool.id")
    tool = name_in(span, *names, most=MAX_TOOL) or called(span, MAX_TOOL) or "unnamed"
    result = attribute(span, "gen_ai.tool.call.result") or plain_value(span, "output")
    return ToolCall(tool, name_in(span, *ids, most=MAX_NAME), _arguments(span), result)


def _arguments(span: Span) -> str | None:
    """``tool.parameters`` are some senders' arguments and others' schema, which may be repeated as GenAI's arguments:
    where it is a schema, what else is said counts."""
    value, parameters = plain_value(span, "input"), attribute(span, "tool.parameters")
    schema = parameters if parameters is not None and _is_schema(parameters) else None
    told = (
        attribute(span, "gen_ai.tool.call.arguments"),
        attribute(span, "tool_call.function.arguments"),
        value if value is not None and value.startswith("{") else None,
        parameters if parameters is not None and parameters.startswith("{") else None,
    )
    return next((text for text in told if text not in (None, schema)), value)


def _is_schema(text: str) -> bool:
    return text.startswith("{") and "properties" in json_text.members(text)


def _word(text: str | None) -> str | None:
    """A JSON string's value."""
    return name_of(json_text.parse(text), MAX_TOOL) if text is not None and text.startswith('"') else None


def _inner(text: str) -> str:
    """The JSON that is written as text in the JSON string ``text``, if there is any; else ``text``."""
    value = json_text.parse(text) if text.startswith('"') else None
    return json_of(value) if isinstance(value, str) and not _UNPAIRED.search(value) else text

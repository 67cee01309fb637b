"""What one span says, by the GenAI semantic conventions (current and older) and by OpenInference.

Payloads come out as JSON texts, spelled as they came: an attribute that holds JSON is that JSON, any other its value.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

from app.domain import json_text
from app.domain.otel import Span
from app.domain.otel_flattened import listed

Role = Literal["agent", "flow", "tool", "llm", "retriever"]

ACTORS: tuple[Role, ...] = ("agent", "flow")

_OPERATIONS: dict[str, Role] = {
    "invoke_agent": "agent",
    "invoke_workflow": "flow",
    "execute_tool": "tool",
    "chat": "llm",
    "text_completion": "llm",
    "generate_content": "llm",
    "retrieval": "retriever",
}
_KINDS: dict[str, Role] = {
    "AGENT": "agent",
    "CHAIN": "flow",
    "TOOL": "tool",
    "LLM": "llm",
    "RETRIEVER": "retriever",
}
_SAID = re.compile(r"gen_ai\.(system|user|assistant|tool)\.message")
_UNPAIRED = re.compile("[\ud800-\udfff]")
MAX_NAME, MAX_TOOL = 256, 200
"""Characters of ids and versions, and of the names of tools."""


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call of a tool: its arguments and its result as JSON texts, as far as they are known."""

    tool: str
    id: str | None
    arguments: str | None
    result: str | None = None


def role_of(span: Span) -> Role | None:
    """What the span is of; ``None`` for what is none of our business."""
    operation, kind = span.attributes.get("gen_ai.operation.name"), span.attributes.get("openinference.span.kind")
    if isinstance(operation, str) and operation in _OPERATIONS:
        return _OPERATIONS[operation]
    if isinstance(kind, str) and kind.upper() in _KINDS:
        return _KINDS[kind.upper()]
    older = operation is None and kind is None and (inputs(span) or outputs(span))
    return "llm" if older else None


def subject_id(span: Span) -> str:
    """Of an agent's or workflow's span: by id, else by name, else by what the span is called."""
    names = ("gen_ai.agent.id", "gen_ai.agent.name", "gen_ai.workflow.name", "agent.name")
    return name_in(span, *names, most=MAX_NAME) or _called(span, MAX_NAME) or "unnamed"


def version_of(span: Span) -> str:
    """The agent's version, else the service's, else ``unversioned``."""
    return name_in(span, "gen_ai.agent.version", most=MAX_NAME) or _name(span.version, MAX_NAME) or "unversioned"


def conversation_id(span: Span) -> str | None:
    """The conversation that the span names; one that is too long to be an id is none."""
    found = name_in(span, "gen_ai.conversation.id", "session.id", most=MAX_NAME + 1)
    return found if found and len(found) <= MAX_NAME else None


def node_id(span: Span) -> str | None:
    """The node of a graph that the span names."""
    return name_in(span, "graph.node.id", most=MAX_NAME)


def has_failed(span: Span) -> bool:
    """Whether the operation ended in an error."""
    return span.failed or "error.type" in span.attributes


def value_in(span: Span) -> str | None:
    """What went in: messages, or a value."""
    return _whole(span, "gen_ai.input.messages", "input", inputs)


def value_out(span: Span) -> str | None:
    """What came out: messages, or a value."""
    return _whole(span, "gen_ai.output.messages", "output", outputs)


def _whole(span: Span, messages: str, side: str, parts: Any) -> str | None:
    if (text := _attribute(span, messages)) is not None:
        return text
    return _plain_value(span, side) or _array(parts(span))


def _plain_value(span: Span, side: str) -> str | None:
    value, mime = span.attributes.get(f"{side}.value"), span.attributes.get(f"{side}.mime_type")
    if value is None:
        return None
    return json_text.dump(value) if mime == "text/plain" else json_of(value, any_json=mime == "application/json")


def inputs(span: Span) -> list[str]:
    """The messages that went in, the system's instructions first."""
    return [
        *_instructions(span),
        *_messages(span, "gen_ai.input.messages", "llm.input_messages", "gen_ai.prompt", "user"),
    ]


def outputs(span: Span) -> list[str]:
    """The messages that came out."""
    found = _messages(span, "gen_ai.output.messages", "llm.output_messages", "gen_ai.completion", "assistant")
    return found or [*_events(span, re.compile(r"gen_ai\.(choice)"))]


def _messages(span: Span, current: str, flattened: str, older: str, role: str) -> list[str]:
    for found in (_attribute(span, current), *_flattened(span, flattened), _attribute(span, older)):
        if found is not None:
            return _elements(found, role)
    found_older = listed(span.attributes, older)
    return found_older or ([*_events(span, _SAID)] if role == "user" else [])


def _flattened(span: Span, prefix: str) -> Iterator[str]:
    if messages := listed(span.attributes, prefix):
        yield _array(messages) or "[]"


def _elements(text: str, role: str) -> list[str]:
    if text.startswith("["):
        return [part if part.startswith("{") else _message(role, part) for part in json_text.elements(text)]
    return [text if text.startswith("{") else _message(role, text)]


def _message(role: str, content: str) -> str:
    return f'{{"role":{json_text.dump(role)},"content":{content}}}'


def _instructions(span: Span) -> Iterator[str]:
    text = _attribute(span, "gen_ai.system_instructions")
    if text is not None and text != "[]":
        parts = text if text.startswith("[") else f'[{{"type":"text","content":{text}}}]'
        yield f'{{"role":"system","parts":{parts}}}'


def _events(span: Span, named: re.Pattern[str]) -> Iterator[str]:
    """Messages that older instrumentations tell as events, in their order."""
    for event in span.events:
        if match := named.fullmatch(event.name):
            role = match.group(1).replace("choice", "assistant")
            body = event.attributes.get("gen_ai.event.content", event.attributes.get("content"))
            text = json_of(body) if body is not None else "null"
            members = json_text.members(text) if text.startswith("{") else {}
            yield text if "role" in members or "message" in members else _message(role, members.get("content", text))


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
        called = _word(members.get("tool_call_id", members.get("id")))
        if _word(members.get("role")) == "tool" and called and "content" in members:
            yield called, _inner(members["content"])


def _parts(members: dict[str, str], name: str) -> Iterator[dict[str, str]]:
    text = members.get(name, "")
    if text.startswith("["):
        yield from (json_text.members(part) for part in json_text.elements(text) if part.startswith("{"))


def executed(span: Span) -> ToolCall:
    """The call that a tool's span is of."""
    names = ("gen_ai.tool.name", "tool.name", "tool_call.function.name")
    ids = ("gen_ai.tool.call.id", "tool_call.id", "tool.id")
    tool = name_in(span, *names, most=MAX_TOOL) or _called(span, MAX_TOOL) or "unnamed"
    result = _attribute(span, "gen_ai.tool.call.result") or _plain_value(span, "output")
    return ToolCall(tool, name_in(span, *ids, most=MAX_NAME), _arguments(span), result)


def _arguments(span: Span) -> str | None:
    """``tool.parameters`` are some senders' arguments and others' schema, which may be repeated as GenAI's arguments:
    where it is a schema, what else is said counts."""
    value, parameters = _plain_value(span, "input"), _attribute(span, "tool.parameters")
    schema = parameters if parameters is not None and _is_schema(parameters) else None
    told = (
        _attribute(span, "gen_ai.tool.call.arguments"),
        _attribute(span, "tool_call.function.arguments"),
        value if value is not None and value.startswith("{") else None,
        parameters if parameters is not None and parameters.startswith("{") else None,
    )
    return next((text for text in told if text not in (None, schema)), value)


def _is_schema(text: str) -> bool:
    return text.startswith("{") and "properties" in json_text.members(text)


def documents(span: Span) -> list[str]:
    """What a retriever found."""
    if found := listed(span.attributes, "retrieval.documents"):
        return found
    text = _attribute(span, "gen_ai.retrieval.documents")
    if text is None:
        return []
    return json_text.elements(text) if text.startswith("[") else [text]


def name_in(span: Span, *names: str, most: int) -> str | None:
    """The first of the attributes that says something, as text of at most ``most`` characters."""
    return next((found for name in names if (found := _name(span.attributes.get(name), most))), None)


def _name(value: Any, most: int) -> str | None:
    if isinstance(value, bool) or not isinstance(value, str | int):
        return None
    text = str(value).encode("utf-8", "replace").decode().replace("\0", "")
    return text[:most] if text.strip() else None


def _called(span: Span, most: int) -> str | None:
    """The span's name without the operation in front."""
    first, _, rest = span.name.partition(" ")
    return _name(rest if first in _OPERATIONS and rest else span.name, most)


def _word(text: str | None) -> str | None:
    """A JSON string's value."""
    return _name(json_text.parse(text), MAX_TOOL) if text is not None and text.startswith('"') else None


def _attribute(span: Span, name: str) -> str | None:
    """The attribute, else that of an event, as JSON text."""
    for attributes in (span.attributes, *(event.attributes for event in span.events)):
        if (value := attributes.get(name)) is not None:
            return json_of(value)
    return None


def json_of(value: Any, *, any_json: bool = False) -> str:
    """``value`` as JSON text: text that is a JSON object or array (or ``any_json``) is that JSON, to the letter."""
    if isinstance(value, str):
        text = value.strip(" \t\r\n")
        if (any_json or text.startswith(("{", "["))) and _is_json(text):
            return json_text.compact(text)
    return json_text.dump(value)


def _inner(text: str) -> str:
    """The JSON that is written as text in the JSON string ``text``, if there is any; else ``text``."""
    value = json_text.parse(text) if text.startswith('"') else None
    return json_of(value) if isinstance(value, str) and not _UNPAIRED.search(value) else text


def _is_json(text: str) -> bool:
    if json_text.too_deep(text.encode("utf-8", "replace")):
        return False
    try:
        json_text.structure(text)
    except (ValueError, RecursionError):
        return False
    return True


def _array(texts: Iterable[str]) -> str | None:
    joined = ",".join(texts)
    return f"[{joined}]" if joined else None

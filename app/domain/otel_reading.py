"""What one span says, by the GenAI semantic conventions (current and older) and by OpenInference.

Payloads come out as JSON texts, spelled as they came: an attribute that holds JSON is that JSON, any other its value.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
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
MAX_NAME = 256
"""Characters of an id or a version."""


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
    return name_in(span, *names, most=MAX_NAME) or called(span, MAX_NAME) or "unnamed"


def version_of(span: Span) -> str:
    """The agent's version, else the service's, else ``unversioned``."""
    return name_in(span, "gen_ai.agent.version", most=MAX_NAME) or name_of(span.version, MAX_NAME) or "unversioned"


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
    """What went in: messages, or a value. Instructions alone are none: agents' spans tell them without the question."""
    return _whole(span, "gen_ai.input.messages", "input", _heard)


def value_out(span: Span) -> str | None:
    """What came out: messages, or a value."""
    return _whole(span, "gen_ai.output.messages", "output", outputs)


def _whole(span: Span, messages: str, side: str, parts: Any) -> str | None:
    if (text := attribute(span, messages)) is not None:
        return text
    return plain_value(span, side) or _array(parts(span))


def plain_value(span: Span, side: str) -> str | None:
    value, mime = span.attributes.get(f"{side}.value"), span.attributes.get(f"{side}.mime_type")
    if value is None:
        return None
    return json_text.dump(value) if mime == "text/plain" else json_of(value, any_json=mime == "application/json")


def inputs(span: Span) -> list[str]:
    """The messages that went in, the system's instructions first."""
    return [*_instructions(span), *_heard(span)]


def _heard(span: Span) -> list[str]:
    return _messages(span, "gen_ai.input.messages", "llm.input_messages", "gen_ai.prompt", "user")


def outputs(span: Span) -> list[str]:
    """The messages that came out."""
    found = _messages(span, "gen_ai.output.messages", "llm.output_messages", "gen_ai.completion", "assistant")
    return found or [*_events(span, re.compile(r"gen_ai\.(choice)"))]


def _messages(span: Span, current: str, flattened: str, older: str, role: str) -> list[str]:
    for found in (attribute(span, current), *_flattened(span, flattened), attribute(span, older)):
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
    text = attribute(span, "gen_ai.system_instructions")
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


def documents(span: Span) -> list[str]:
    """What a retriever found."""
    if found := listed(span.attributes, "retrieval.documents"):
        return found
    text = attribute(span, "gen_ai.retrieval.documents")
    if text is None:
        return []
    return json_text.elements(text) if text.startswith("[") else [text]


def name_in(span: Span, *names: str, most: int) -> str | None:
    """The first of the attributes that says something, as text of at most ``most`` characters."""
    return next((found for name in names if (found := name_of(span.attributes.get(name), most))), None)


def name_of(value: Any, most: int) -> str | None:
    if isinstance(value, bool) or not isinstance(value, str | int):
        return None
    text = str(value).encode("utf-8", "replace").decode().replace("\0", "")
    return text[:most] if text.strip() else None


def called(span: Span, most: int) -> str | None:
    """The span's name without the operation in front."""
    first, _, rest = span.name.partition(" ")
    return name_of(rest if first in _OPERATIONS and rest else span.name, most)


def attribute(span: Span, name: str) -> str | None:
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

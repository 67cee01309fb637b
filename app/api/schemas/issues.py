"""From marshmallow's messages to one error of ours, which tells each issue by its JSON Pointer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from marshmallow import ValidationError

from app.api.schemas.base import UNKNOWN, Shape
from app.domain.errors import BadInput, Refused, UnknownField


def load(shape: Shape, value: Any) -> dict[str, Any]:
    """``value`` as ``shape`` reads it.

    :raises BadInput: with every issue; ``UnknownField`` when a field isn't known.
    """
    try:
        loaded: dict[str, Any] = shape.load(value)
        return loaded
    except ValidationError as error:
        raise refusal(error.messages) from None


def refusal(messages: Any, prefix: str = "") -> Refused:
    """marshmallow's messages as one error of ours, ``details.issues`` holding each by its JSON Pointer."""
    issues = _issues(messages, prefix)
    unknown = any(issue["message"] == UNKNOWN for issue in issues)
    first = next(issue for issue in issues if not unknown or issue["message"] == UNKNOWN)
    message = f"{first['path'] or 'The body'} {first['message']}."
    return (UnknownField if unknown else BadInput)(message, issues=issues)


def _issues(messages: Any, path: str) -> list[dict[str, str]]:
    if isinstance(messages, Mapping):
        return [
            issue
            for key, inner in messages.items()
            for issue in _issues(inner, path if key == "_schema" else f"{path}/{escape(str(key))}")
        ]
    if isinstance(messages, list):
        return [issue for inner in messages for issue in _issues(inner, path)]
    return [{"path": path, "message": str(messages).rstrip(".")}]


def escape(key: str) -> str:
    """``key`` as a reference token of a JSON Pointer."""
    return key.replace("~", "~0").replace("/", "~1")

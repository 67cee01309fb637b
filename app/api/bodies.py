"""From the bytes of a body to checked values, losing nothing that must be kept."""

from __future__ import annotations

from typing import Any

from app.api.schemas.base import JsonText, Kept, Shape, load
from app.domain import json_text
from app.domain.errors import BadInput


def text_of(body: bytes) -> str:
    """``body`` as text.

    :raises BadInput: if it isn't UTF-8 or nests deeper than ``json_text.MAX_DEPTH``.
    """
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadInput(f"The body is not UTF-8: byte {error.start} can't be read.") from None
    if json_text.too_deep(body):
        raise BadInput(f"The body is nested deeper than {json_text.MAX_DEPTH} levels.", maxDepth=json_text.MAX_DEPTH)
    return text


def load_body(shape: Shape, body: bytes) -> dict[str, Any]:
    """``body`` as ``shape`` reads it; its ``JsonText`` fields stay the text that they were.

    :raises BadInput: for what isn't JSON, or isn't of that shape.
    """
    text = text_of(body)
    try:
        return load(shape, _sliced(shape, text) if _keeps_text(shape) else json_text.parse(text))
    except json_text.NotJson as error:
        raise BadInput(f"The body is not the JSON that is expected: {error}.") from None


def _keeps_text(shape: Shape) -> bool:
    return any(isinstance(field, JsonText) for field in shape.fields.values())


def _sliced(shape: Shape, text: str) -> Any:
    kept = {field.data_key for field in shape.fields.values() if isinstance(field, JsonText)}
    return {
        name: _kept_or_null(value) if name in kept else json_text.parse(value)
        for name, value in json_text.members(text).items()
    }


def _kept_or_null(text: str) -> Kept | None:
    return None if text == "null" else Kept(json_text.compact(text))

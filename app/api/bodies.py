"""From the bytes of a body to checked values, losing nothing that must be kept."""

from __future__ import annotations

from typing import Any

from app.api.schemas.base import Shape
from app.api.schemas.kept import read
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
        return read(shape, text)
    except json_text.NotJson as error:
        raise BadInput(f"The body is not the JSON that is expected: {error}.") from None

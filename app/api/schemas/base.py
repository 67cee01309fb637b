"""What all shapes on the wire share: strictness, camelCase names, texts that can be stored, issues by JSON Pointer."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any, ClassVar

import marshmallow
from marshmallow import ValidationError, fields

from app.domain import times
from app.domain.errors import BadInput

ID_PATTERN = r"^[A-Za-z0-9._:-]{1,128}$"
"""Of run, project and tenant ids."""

JsonSchema = dict[str, Any]
"""What a field's ``described`` tells of it to OpenAPI; ``{}`` is anything."""

_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
UNKNOWN = "is not a field here"
"""What is said of a field that isn't known: it has an error's code of its own."""
_WORD = re.compile(r"_([a-z])")


class Shape(marshmallow.Schema):
    """A strict schema: unknown fields are refused, ``null`` too unless a field says otherwise.

    ``bare_list``: the body is a JSON array of these.
    """

    bare_list: ClassVar[bool] = False

    error_messages = {"unknown": UNKNOWN, "type": "must be a JSON object"}  # noqa: RUF012

    class Meta:
        unknown = marshmallow.RAISE

    def on_bind_field(self, field_name: str, field_obj: fields.Field[Any]) -> None:
        if field_obj.data_key is None:
            field_obj.data_key = _WORD.sub(lambda match: match.group(1).upper(), field_name)
        field_obj.error_messages["required"] = "is required"
        field_obj.error_messages["null"] = "must not be null; leave it out instead"


class Text(fields.Field[str]):
    """A string of ``low`` to ``high`` code points that PostgreSQL can store: no NUL, no lone surrogate."""

    def __init__(self, low: int = 0, high: int | None = None, pattern: str | None = None, **more: Any) -> None:
        super().__init__(**more)
        self.low, self.high = low, high
        self.pattern = re.compile(pattern) if pattern else None

    def _deserialize(self, value: Any, attr: str | None, data: Any, **more: Any) -> str:
        if not isinstance(value, str):
            raise ValidationError("must be a string")
        if len(value) < self.low or (self.high is not None and len(value) > self.high):
            raise ValidationError(self._length())
        if _UNSTORABLE.search(value):
            raise ValidationError("must not hold a NUL character or a lone surrogate")
        if self.pattern is not None and not self.pattern.fullmatch(value):
            raise ValidationError(f"must match {self.pattern.pattern}")
        return value

    def described(self) -> JsonSchema:
        limits = {"minLength": self.low or None, "maxLength": self.high}
        return present({"type": "string", **limits, "pattern": self.pattern and self.pattern.pattern})

    def _length(self) -> str:
        if self.high is None:
            return f"must have at least {self.low} character(s)"
        if self.low == 0:
            return f"must have at most {self.high} characters"
        return f"must have {self.low} to {self.high} characters"


def name_id(**more: Any) -> Text:
    """The id of a subject, version, conversation, principal or group: any 1 to 256 characters."""
    return Text(1, 256, **more)


def plain_id(**more: Any) -> Text:
    """The id of a run or project where it is created: 1 to 128 of ``A-Za-z0-9._:-``."""
    return Text(1, 128, pattern=ID_PATTERN, **more)


def created_id(name: str, sent: str) -> str:
    """The path's ``name`` as the id of a run or project that is about to be created.

    :raises BadInput: if it is malformed; where nothing is created, such an id is simply not found.
    """
    if not re.fullmatch(ID_PATTERN, sent):
        raise BadInput.at(f"/path/{name}", f"must match {ID_PATTERN}")
    return sent


def created_name(name: str, sent: str) -> str:
    """The path's ``name`` as the id of an agent or a flow that is about to be registered: any 1 to 256 characters.

    :raises BadInput: if it is longer.
    """
    if len(sent) > 256:
        raise BadInput.at(f"/path/{name}", "must have 1 to 256 characters")
    return sent


class OneOf(fields.Field[str]):
    """One of a few words."""

    def __init__(self, *choices: str, **more: Any) -> None:
        super().__init__(**more)
        self.choices = choices

    def _deserialize(self, value: Any, attr: str | None, data: Any, **more: Any) -> str:
        if not isinstance(value, str) or value not in self.choices:
            raise ValidationError(f"must be one of {', '.join(self.choices)}")
        return value

    def described(self) -> JsonSchema:
        return {"type": "string", "enum": list(self.choices)}


class Whole(fields.Field[int]):
    """A whole JSON number from ``low`` to ``high``, also spelled ``60.0``; in a query its decimal digits."""

    def __init__(self, low: int, high: int, **more: Any) -> None:
        super().__init__(**more)
        self.low, self.high = low, high

    def _deserialize(self, value: Any, attr: str | None, data: Any, **more: Any) -> int:
        if isinstance(value, str) and self.root is not None and isinstance(self.root, Query):
            value = int(value) if re.fullmatch(r"[0-9]{1,18}", value, re.ASCII) else None
        number = isinstance(value, int | Decimal) and not isinstance(value, bool)
        if not number or not self.low <= value <= self.high or value % 1 != 0:
            raise ValidationError(f"must be a whole number from {self.low} to {self.high}")
        return int(value)

    def described(self) -> JsonSchema:
        return {"type": "integer", "minimum": self.low, "maximum": self.high}


class Number(fields.Field[float]):
    """A finite JSON number of at least ``low``, as a double."""

    def __init__(self, low: float, **more: Any) -> None:
        super().__init__(**more)
        self.low = low

    def _deserialize(self, value: Any, attr: str | None, data: Any, **more: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
            raise ValidationError(f"must be a number of at least {self.low}")
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if not math.isfinite(number) or number < self.low:
            raise ValidationError(f"must be a finite number of at least {self.low}")
        return number + 0.0  # -0.0 is 0.0

    def described(self) -> JsonSchema:
        return {"type": "number", "minimum": self.low}


class Flag(fields.Field[bool]):
    """A JSON boolean; in a query ``true`` or ``false``."""

    def _deserialize(self, value: Any, attr: str | None, data: Any, **more: Any) -> bool:
        if isinstance(self.root, Query):
            value = {"true": True, "false": False}.get(value)
        if not isinstance(value, bool):
            raise ValidationError("must be true or false")
        return value

    def described(self) -> JsonSchema:
        return {"type": "boolean"}


class Instant(fields.Field[datetime]):
    """An RFC 3339 time with a zone."""

    def _deserialize(self, value: Any, attr: str | None, data: Any, **more: Any) -> datetime:
        if not isinstance(value, str):
            raise ValidationError("must be a string")
        try:
            return times.parse(value)
        except ValueError as error:
            raise ValidationError(str(error)) from None

    def described(self) -> JsonSchema:
        return {"type": "string", "format": "date-time"}


class Nested(fields.Nested):
    """A nested ``Shape``."""


class ListOf(fields.List[Any]):
    """A JSON array of ``low`` to ``high`` elements of ``inner``."""

    def __init__(self, inner: fields.Field[Any], low: int = 0, high: int | None = None, **more: Any) -> None:
        super().__init__(inner, **more)
        self.low, self.high = low, high

    def _deserialize(self, value: Any, attr: str | None, data: Any, **more: Any) -> list[Any]:
        if not isinstance(value, list):
            raise ValidationError("must be a JSON array")
        if len(value) < self.low or (self.high is not None and len(value) > self.high):
            most = "" if self.high is None else f" to {self.high}"
            raise ValidationError(f"must have {self.low}{most} entries")
        return super()._deserialize(value, attr, data, **more)

    def described(self) -> JsonSchema:
        return present({"minItems": self.low or None, "maxItems": self.high})


class Kept(str):
    """JSON text to be stored as it came."""

    __slots__ = ()


class JsonText(fields.Field[Kept]):
    """Any JSON value, as the text that it was (see ``bodies.py``). ``kind`` narrows it."""

    KINDS: ClassVar[dict[str, str]] = {"{": "a JSON object", "[": "a JSON array"}

    def __init__(self, kind: str | None = None, **more: Any) -> None:
        super().__init__(**more)
        self.kind = kind

    def _deserialize(self, value: Any, attr: str | None, data: Any, **more: Any) -> Kept:
        assert isinstance(value, Kept), "a body with JsonText fields is loaded by bodies.load"
        if self.kind is not None and not value.startswith(self.kind):
            raise ValidationError(f"must be {self.KINDS[self.kind]}")
        return value

    def described(self) -> JsonSchema:
        return {"type": {"{": "object", "[": "array"}[self.kind]} if self.kind else {}


class Query(Shape):
    """The parameters of a query string. ``Several`` fields may be repeated or hold a comma list."""


class PageQuery(Query):
    """What every list takes."""

    limit = Whole(1, 100, load_default=25)
    cursor = Text(1)


class PageShape(Shape):
    """What every list answers, besides its ``data``."""

    next_cursor = Text()
    has_more = Flag(required=True)


class Several(fields.Field[list[str]]):
    """A query parameter of several words: repeated or comma-separated, trimmed, duplicates dropped.

    They come out sorted, so that the same words in another order are the same filter to a cursor; where the order
    says something (``ordered``), as they were given.
    """

    ordered: ClassVar[bool] = False

    def __init__(self, *choices: str, **more: Any) -> None:
        super().__init__(**more)
        self.choices = choices

    def _deserialize(self, value: Any, attr: str | None, data: Any, **more: Any) -> list[str]:
        words = [word.strip() for part in value for word in part.split(",")]
        words = list(dict.fromkeys(word for word in words if word))
        unknown = [word for word in words if self.choices and word not in self.choices]
        if unknown:
            raise ValidationError(f"{', '.join(unknown)}: must be of {', '.join(self.choices)}")
        return words if self.ordered else sorted(words)

    def described(self) -> JsonSchema:
        return {"type": "array", "items": present({"type": "string", "enum": list(self.choices) or None})}


def present(values: Mapping[str, Any]) -> dict[str, Any]:
    """``values`` without those that are ``None``: what has no value is absent on the wire."""
    return {name: value for name, value in values.items() if value is not None}

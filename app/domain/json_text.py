"""JSON whose spelling matters: parsed without loss, sliced without change.

What callers send is kept as they sent it (number spelling, key order, escapes); only white space between tokens goes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from decimal import Decimal
from itertools import accumulate
from typing import Any, NoReturn

import simplejson

MAX_DEPTH = 128
"""Deepest nesting that is taken; the outermost value counts as 1."""

_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_NO_SPACE = re.compile(r'(?:[^ \t\n\r"]++|"[^"\\]*+(?:\\.[^"\\]*+)*+")++', re.DOTALL)
_SPACE = re.compile(r"[ \t\n\r]*")
_STEP = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}
_NOT_BRACKETS = bytes(byte for byte in range(256) if byte not in _STEP)


class NotJson(ValueError):
    """The text isn't JSON (RFC 8259). The message says where and why."""


class Spelled(Decimal):
    """A number with a fraction or an exponent: worth what it says, spelled as it came."""

    __slots__ = ("spelling",)
    spelling: str

    def __new__(cls, spelling: str) -> Spelled:
        self = super().__new__(cls, spelling)
        self.spelling = spelling
        return self

    def __str__(self) -> str:
        return self.spelling


def _refuse_constant(name: str) -> NoReturn:
    raise NotJson(f"{name} is no JSON value")


def _spelling(digits: str) -> str:
    return digits


_scan_string: Callable[[str, int, bool], tuple[str, int]] = getattr(json.decoder, "scanstring")  # noqa: B009
_SLICER = json.JSONDecoder(parse_constant=_refuse_constant, parse_int=_spelling, parse_float=_spelling)


def too_deep(body: bytes, limit: int = MAX_DEPTH) -> bool:
    """Whether ``body`` nests deeper than ``limit``. Says nothing on whether it is JSON."""
    if body.count(b"[") + body.count(b"{") <= limit:
        return False
    brackets = _STRING.sub(b"", body).translate(None, _NOT_BRACKETS)
    return any(depth > limit for depth in accumulate(map(_STEP.__getitem__, brackets)))


def parse(text: str) -> Any:
    """The value of ``text``: whole numbers as ``int`` with every digit, others as ``Spelled`` decimals.

    :raises NotJson: for anything that RFC 8259 doesn't allow, ``NaN`` and ``Infinity`` among it, and for a number
        whose exponent has some 19 digits or more.
    """
    try:
        return simplejson.loads(text, parse_float=Spelled, parse_constant=_refuse_constant)
    except NotJson:
        raise
    except (ValueError, RecursionError, ArithmeticError) as error:
        raise NotJson(_why(error)) from None


def structure(text: str) -> Any:
    """The objects and arrays of ``text``, which was stored as valid JSON; numbers stay the text that they are."""
    return _SLICER.decode(text)


_ENCODER = simplejson.JSONEncoder(use_decimal=True, ensure_ascii=False, separators=(",", ":"))


def dump(value: Any) -> str:
    """``value`` as JSON without white space, in its own key order, nothing escaped that needn't be."""
    return _ENCODER.encode(value)


def compact(text: str) -> str:
    """``text`` (valid JSON) without the white space between tokens, else to the letter."""
    return "".join(_NO_SPACE.findall(text))


def members(text: str) -> dict[str, str]:
    """The members of the object in ``text``, each value as the text that it was (the last of a repeated key).

    :raises NotJson: if ``text`` isn't JSON, or is no object.
    """
    return {key: text[start:end] for key, start, end in _guarded(_member_spans, text, "{")}


def elements(text: str) -> list[str]:
    """The elements of the array in ``text``, each as the text that it was.

    :raises NotJson: if ``text`` isn't JSON, or is no array.
    """
    return [text[start:end] for _, start, end in _guarded(_element_spans, text, "[")]


def _guarded(spans: Any, text: str, opening: str) -> list[tuple[str, int, int]]:
    start = _skip(text, 0)
    if text[start : start + 1] != opening:
        raise NotJson("must be a JSON object" if opening == "{" else "must be a JSON array")
    try:
        return list(spans(text, start + 1))
    except NotJson:
        raise
    except (ValueError, StopIteration, RecursionError) as error:
        raise NotJson(_why(error)) from None


def _member_spans(text: str, at: int) -> Iterator[tuple[str, int, int]]:
    at = _skip(text, at)
    if text[at : at + 1] == "}":
        return _end(text, at + 1)
    while True:
        if text[at : at + 1] != '"':
            raise NotJson(f"a member's name is expected at character {at}")
        key, at = _scan_string(text, at + 1, True)
        at = _skip(text, at)
        if text[at : at + 1] != ":":
            raise NotJson(f"':' is expected at character {at}")
        start = _skip(text, at + 1)
        _, at = _SLICER.raw_decode(text, start)
        yield key, start, at
        at = _skip(text, at)
        if text[at : at + 1] == "}":
            return _end(text, at + 1)
        at = _comma(text, at)


def _element_spans(text: str, at: int) -> Iterator[tuple[str, int, int]]:
    at = _skip(text, at)
    if text[at : at + 1] == "]":
        return _end(text, at + 1)
    while True:
        start = at
        _, at = _SLICER.raw_decode(text, start)
        yield "", start, at
        at = _skip(text, at)
        if text[at : at + 1] == "]":
            return _end(text, at + 1)
        at = _comma(text, at)


def _skip(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    assert match is not None
    return match.end()


def _comma(text: str, at: int) -> int:
    if text[at : at + 1] != ",":
        raise NotJson(f"',' is expected at character {at}")
    return _skip(text, at + 1)


def _end(text: str, at: int) -> None:
    at = _skip(text, at)
    if at != len(text):
        raise NotJson(f"nothing is expected after the value, at character {at}")


def _why(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "it is nested too deep"
    if isinstance(error, ArithmeticError):
        return "a number's exponent is out of range"
    if "integer string conversion" in str(error):
        return "a whole number has more than 4300 digits"
    return str(error)

"""JSON values apart from their spelling: how long they are, whether they can be kept, when they are the same."""

from __future__ import annotations

import math
import re
from collections.abc import Hashable
from decimal import Decimal
from typing import Any

import simplejson

_ENCODER = simplejson.JSONEncoder(use_decimal=True, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


def dump(value: Any) -> str:
    """``value`` (parsed JSON) with sorted keys, nothing escaped but ``"``, ``\\`` and control characters."""
    return _ENCODER.encode(value)


def fault(value: Any) -> str | None:
    """Why ``value`` (parsed JSON) can't be kept as text and compared by value, if so.

    Not: a NUL character or a lone surrogate in a string or key, a number too large for a double.
    """
    if isinstance(value, str):
        return "must not hold a NUL character or a lone surrogate" if _UNSTORABLE.search(value) else None
    if isinstance(value, dict):
        return _first(value.keys()) or _first(value.values())
    if isinstance(value, list):
        return _first(value)
    return "must not hold a number too large for a double" if _too_large(value) else None


def _first(values: Any) -> str | None:
    return next((found for value in values if (found := fault(value)) is not None), None)


def _too_large(number: Any) -> bool:
    try:
        return number is not None and math.isinf(float(number))
    except OverflowError:
        return True


def by_value(value: Any) -> Hashable:
    """A key that two JSON values share exactly when they are equal by value.

    Numbers by what they are worth, with all digits (1 is 1.0), never equal to a boolean or a string; objects whatever
    their key order; lists in order. ``value`` is as ``json_text.parse`` gives it: ``int`` and ``Decimal``, no floats.
    """
    if value is None or isinstance(value, bool | str):
        return type(value).__name__, value
    if isinstance(value, int | Decimal):
        return "number", value
    if isinstance(value, list | tuple):
        return "list", tuple(by_value(item) for item in value)
    return "object", frozenset((name, by_value(item)) for name, item in value.items())

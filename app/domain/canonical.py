"""When two JSON values are the same: by what they are worth, not by how they are spelled."""

from __future__ import annotations

from collections.abc import Hashable
from decimal import Decimal
from typing import Any


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

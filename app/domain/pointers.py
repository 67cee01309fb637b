"""JSON Pointers, to the letter of RFC 6901.

The jsonpointer package reads them. It doesn't resolve them: it gives ``-`` a meaning, and puts the whole document
into its error messages.
"""

from __future__ import annotations

import re
from typing import Any

from jsonpointer import JsonPointer, JsonPointerException

_INDEX = re.compile(r"0|[1-9][0-9]*", re.ASCII)


class Malformed(ValueError):
    """The text is no JSON Pointer. The message says what is wrong with it."""


def tokens(pointer: str) -> list[str]:
    """The reference tokens of ``pointer``, unescaped; none for ``""``, the whole document.

    :raises Malformed: if it doesn't start with ``/``, or a ``~`` isn't followed by ``0`` or ``1``.
    """
    try:
        parts: list[str] = JsonPointer(pointer).parts
    except JsonPointerException:
        raise Malformed('must be a JSON Pointer: "" or /-separated, with ~ only in ~0 and ~1') from None
    return parts


def resolves(pointer: str, document: Any) -> bool:
    """Whether well-formed ``pointer`` leads to a value, ``null`` among them, in ``document`` (parsed JSON)."""
    here = document
    for token in tokens(pointer):
        if isinstance(here, dict) and token in here:
            here = here[token]
        elif isinstance(here, list) and _within(token, len(here)):
            here = here[int(token)]
        else:
            return False
    return True


def _within(token: str, length: int) -> bool:
    # An index longer than the length's own digits is past the end; int() would refuse one of thousands of digits.
    return _INDEX.fullmatch(token) is not None and len(token) <= len(str(length)) and int(token) < length

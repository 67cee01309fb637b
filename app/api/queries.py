"""The query string: strict names, empty values absent, one value each but where several are allowed."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any
from urllib.parse import unquote_to_bytes

from app.api.schemas.base import Query, Several
from app.api.schemas.issues import escape, load, refusal
from app.domain.errors import BadInput

_NONE = Query()
_BROKEN_ESCAPE = re.compile(rb"%(?![0-9A-Fa-f]{2})")


def load_query(shape: Query | None, query: bytes) -> dict[str, Any]:
    """The parameters of a query string as ``shape`` reads them.

    :raises BadInput: naming each parameter that is unknown, repeated or malformed.
    """
    shape = shape or _NONE
    if not query and shape is _NONE:
        return {}
    several = {f.data_key for f in shape.fields.values() if isinstance(f, Several)}
    known = {f.data_key or name for name, f in shape.fields.items()}
    values: dict[str, Any] = {}
    wrong: dict[str, str] = {}
    for name, sent in _parameters(query).items():
        kept = [value for value in sent if value != ""]
        if name not in known:
            wrong[name] = f"is not a parameter here; there {_listed(known)}"
        elif name in several and kept:
            values[name] = kept
        elif len(kept) > 1:
            wrong[name] = "must be given once"
        elif kept:
            values[name] = kept[0]
    if wrong:
        raise refusal({"query": wrong})
    try:
        return load(shape, values)
    except BadInput as error:
        issues = [{"path": "/query" + i["path"], "message": i["message"]} for i in error.details["issues"]]
        raise BadInput(f"{issues[0]['path']} {issues[0]['message']}.", issues=issues) from None


def _listed(names: Iterable[str]) -> str:
    return "are " + ", ".join(sorted(names)) if names else "are none"


def _parameters(query: bytes) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for part in query.split(b"&"):
        if part:
            sent_name, _, sent = part.partition(b"=")
            name = _text(sent_name, sent_name)
            found.setdefault(name, []).append(_text(sent, sent_name))
    return found


def _text(encoded: bytes, name: bytes) -> str:
    try:
        if _BROKEN_ESCAPE.search(encoded):
            raise ValueError
        return unquote_to_bytes(encoded.replace(b"+", b" ")).decode("utf-8")
    except ValueError:
        shown = name.decode("ascii", "backslashreplace")
        raise BadInput.at(f"/query/{escape(shown)}", "is not percent-encoded UTF-8") from None

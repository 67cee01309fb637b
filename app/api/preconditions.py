"""What a request makes its answer depend on: ``If-None-Match`` and ``If-Match``."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from werkzeug.http import parse_etags


def none_match(headers: Mapping[str, str], etag: str) -> bool:
    """Whether ``If-None-Match`` asks for the answer: it is absent, or names no state like ``etag`` (quoted)."""
    sent = headers.get("If-None-Match")
    return sent is None or not parse_etags(sent).contains_weak(etag.strip('"'))


def if_match(headers: Mapping[str, str]) -> Callable[[int], bool]:
    """Tells of a row's version whether ``If-Match`` allows a change of it: it is absent, ``*``, or names its ETag."""
    sent = headers.get("If-Match")
    named = parse_etags(sent)
    return lambda version: not sent or named.contains(str(version))

"""Links of a correction to the work on it: equal exactly when their stored texts are."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urlsplit

from app.domain import json_text

_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


def link_text(kind: str, target: str) -> str:
    """The JSON of a link as it is stored, compared and shown. ``target`` is a pull request's URL, else an id."""
    return json_text.dump({"kind": kind, "url" if kind == "pull-request" else "id": target})


def improve_run_of(answer: Any) -> str | None:
    """The Improve run that an improver's answer names: itself a text, or ``{"improveRunId": text}``; ``None`` if it
    names none that can be kept."""
    named = answer.get("improveRunId") if isinstance(answer, dict) else answer
    kept = isinstance(named, str) and 1 <= len(named) <= 256 and not _UNSTORABLE.search(named)
    return named if kept else None


def name_of(text: str) -> str:
    """A stored link in one word: a pull request's URL, else ``kind:id``."""
    link = json_text.parse(text)
    return str(link["url"]) if link["kind"] == "pull-request" else f"{link['kind']}:{link['id']}"


def is_address(url: str) -> bool:
    """Whether ``url`` is an absolute ``http`` or ``https`` URL, safe to show as a link."""
    if any(character <= " " or character in '<>"\\^`{|}' for character in url):
        return False
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        return False

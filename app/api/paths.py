"""From the paths of OpenAPI to routes of Flask, and from a path with trailing slashes to the one that there is."""

from __future__ import annotations

import re
from urllib.parse import quote

from flask import Request, current_app
from werkzeug.routing import BaseConverter

from app.api.routes import Route

_ANY = re.compile(r"\{(agentId|flowId)\}")
_PLAIN = re.compile(r"\{(runId|projectId)\}$")
_UNSTORABLE = re.compile("[\x00\ufffd]")


class AnyId(BaseConverter):
    """An id of any characters. A server hands an encoded slash over as a plain one, so it may span segments."""

    part_isolating = False
    regex = "(?s:.+?)"


def rule_of(path: str) -> str:
    """A Flask rule from an OpenAPI path."""
    return re.sub(r"\{(\w+)\}", r"<\1>", _ANY.sub(r"<anyid:\1>", path))


def storable(value: str) -> bool:
    """Whether a path's id is text that could be stored: no NUL, nothing that wasn't UTF-8."""
    return _UNSTORABLE.search(value) is None


def meant(route: Route, method: str, path: str) -> bool:
    """Whether a path that no route has means ``route``, with a slash in its run's or project's id."""
    prefix = _PLAIN.sub("", route.path)
    return route.method == method and prefix != route.path and path.startswith(prefix)


def canonical(request: Request) -> str | None:
    """Where a request with trailing slashes belongs, its query kept; ``None`` without them, or if nothing is there."""
    path = request.path.rstrip("/")
    if path in (request.path, ""):
        return None
    adapter = current_app.create_url_adapter(request)
    if adapter is None or not adapter.allowed_methods(path):
        return None
    query = request.query_string.decode("latin-1")
    return request.script_root + quote(path, safe="/:@!$&'()*+,;=~") + (f"?{query}" if query else "")

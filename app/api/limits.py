"""What is refused before anything is looked at: bodies too large, callers too fast, origins not known."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from flask import Request

from app.domain.errors import RequestTooLarge
from app.domain.model import Caller

_CHUNK = 64 * 1024


def read_body(request: Request, limit: int) -> bytes:
    """The whole body.

    :raises RequestTooLarge: as soon as it is known to be over ``limit`` bytes.
    """
    if request.content_length is not None:
        if request.content_length > limit:
            raise too_large(limit)
        return request.environ["wsgi.input"].read(request.content_length) if request.content_length else b""
    if "chunked" not in request.headers.get("Transfer-Encoding", "").lower():
        return b""
    parts, size = [], 0
    while chunk := request.environ["wsgi.input"].read(_CHUNK):
        parts.append(chunk)
        size += len(chunk)
        if size > limit:
            raise too_large(limit)
    return b"".join(parts)


def too_large(limit: int) -> RequestTooLarge:
    """The one answer to a body, or a line of an import, over ``limit`` bytes."""
    return RequestTooLarge(f"The request is over the limit of {limit} bytes.", maxBytes=limit)


class Limiter:
    """Requests per token. Off when no rate is set."""

    def __init__(self, rate: str, broker_url: str) -> None:
        self._rate = rate

    def admit(self, caller: Caller) -> None:
        """Count one request of ``caller``.

        :raises RateLimitExceeded: when it is one too many.
        """


def cors_headers(origin: str | None, allowed: Iterable[str]) -> dict[str, Any]:
    """What a browser at ``origin`` is told; nothing unless the operator allows that origin."""
    if origin is None or origin not in allowed:
        return {}
    return {
        "Access-Control-Allow-Origin": origin,
        "Access-Control-Allow-Methods": "GET, POST, PUT, PATCH, DELETE",
        "Access-Control-Allow-Headers": "Authorization, Content-Type, Idempotency-Key, If-Match, X-Request-Id",
        "Access-Control-Expose-Headers": "X-Request-Id, ETag, Retry-After",
        "Access-Control-Max-Age": "600",
        "Vary": "Origin",
    }

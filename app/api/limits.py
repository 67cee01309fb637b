"""What is refused before anything is looked at: bodies too large, callers too fast, origins not known."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Iterable, Iterator
from functools import cached_property
from threading import BoundedSemaphore
from typing import Any

from flask import Request
from limits import parse
from limits.errors import StorageError
from limits.storage import MemoryStorage, storage_from_string
from limits.strategies import MovingWindowRateLimiter
from redis import RedisError

from app import log
from app.domain.errors import BadInput, RateLimitExceeded, RequestTooLarge
from app.domain.model import Caller

_CHUNK = 64 * 1024
_PATIENCE = 0.25
"""Seconds that a request waits, at most, for Redis or for a turn to read on."""
_LINGER = 5.0
"""Seconds for which a refused body is read on."""
_PAUSE = 5.0
"""Seconds for which Redis isn't asked again after it failed."""


def read_body(request: Request, limit: int) -> bytes:
    """The whole body.

    :raises RequestTooLarge: as soon as it is known to be over ``limit`` bytes.
    :raises BadInput: if it ends before it is as long as it said. Of a chunked one the server doesn't tell us.
    """
    length, source = request.content_length, request.environ["wsgi.input"]
    if length is not None:
        if length > limit:
            raise too_large(limit)
        return _promised(source, length) if length else b""
    if "Transfer-Encoding" not in request.headers and request.environ.get("SERVER_PROTOCOL") != "HTTP/2":
        return b""
    body = _read(source, limit + 1)
    if len(body) > limit:
        raise too_large(limit)
    return body


class Drain:
    """Sends the answer to a body that is refused, and reads on for a while.

    A client that is still sending would else find its connection broken, and not the answer. ``slots`` requests at
    once may do so, up to ``most`` bytes and some seconds each.
    """

    def __init__(self, slots: int, most: int) -> None:
        self._slots = BoundedSemaphore(slots)
        self._most = most

    def after(self, answer: bytes, length: int | None, source: Any) -> Iterator[bytes]:
        """``answer``, then nothing more, once what comes from ``source`` was read. ``length`` is what it shall have."""
        yield answer
        if (length or 0) <= self._most and self._slots.acquire(timeout=_PATIENCE):
            try:
                self._read_on(source)
            finally:
                self._slots.release()

    def _read_on(self, source: Any) -> None:
        left, until = self._most, time.monotonic() + _LINGER
        while left > 0 and time.monotonic() < until and (part := source.read(_CHUNK)):
            left -= len(part)


def _promised(source: Any, length: int) -> bytes:
    """All of ``length`` bytes: a part of a body must have no effect, nor take its idempotency key."""
    body = _read(source, length)
    if len(body) < length:
        raise BadInput(f"The body ended after {len(body)} of {length} bytes.")
    return body


def _read(source: Any, most: int) -> bytes:
    """Up to ``most`` bytes: fewer only where the body ends."""
    parts, left = [], most
    while left and (part := source.read(min(left, _CHUNK))):
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


def too_large(limit: int) -> RequestTooLarge:
    """The one answer to a body, or a line of an import, over ``limit`` bytes."""
    return RequestTooLarge(f"The request is over the limit of {limit} bytes.", maxBytes=limit)


class Limiter:
    """Requests per token. Off when no rate is set.

    Processes share their counts through the broker's server. Without one each counts for itself; while it is away,
    requests are let through: a limit protects the service, and must not be what takes it down.
    """

    def __init__(self, rate: str, broker_url: str) -> None:
        self._rate = parse(rate) if rate else None
        self._broker_url = broker_url
        self._away_until = 0.0

    @cached_property
    def _window(self) -> MovingWindowRateLimiter:
        if not self._broker_url:
            return MovingWindowRateLimiter(MemoryStorage())
        storage = storage_from_string(
            _address(self._broker_url), socket_connect_timeout=_PATIENCE, socket_timeout=_PATIENCE
        )
        return MovingWindowRateLimiter(storage)

    def admit(self, caller: Caller) -> None:
        """Count one request of ``caller``.

        :raises RateLimitExceeded: when it is one too many.
        """
        if self._rate is None or time.monotonic() < self._away_until:
            return
        key = (caller.tenant_id, caller.token_id)
        try:
            within = self._window.hit(self._rate, *key)
            self._away_until = 0.0
            if within:
                return
            free_at = self._window.get_window_stats(self._rate, *key).reset_time
        except (RedisError, StorageError) as error:
            self._let_through(error)
            return
        seconds = max(1, math.ceil(free_at - time.time()))
        raise RateLimitExceeded(f"This token is over its limit of {self._rate}.", retryAfter=seconds)

    def _let_through(self, error: Exception) -> None:
        if not self._away_until:
            log.log.warning("rate limits are off while Redis is away", error=str(error))
        self._away_until = time.monotonic() + _PAUSE


def _address(broker_url: str) -> str:
    """``broker_url`` with the scheme that the limits package has for it."""
    return re.sub(r"^(redis\+socket|unix)://", "redis+unix://", broker_url)


_CORS = {
    "Access-Control-Allow-Methods": "GET, POST, PUT, PATCH, DELETE",
    "Access-Control-Allow-Headers": "Authorization, Content-Type, Idempotency-Key, If-Match, If-None-Match, "
    "X-Request-Id",
    "Access-Control-Expose-Headers": "ETag, Location, Retry-After, X-Idempotent-Replay, X-Request-Id",
    "Access-Control-Max-Age": "600",
}


def cors_headers(origin: str | None, allowed: Iterable[str]) -> dict[str, Any]:
    """What a browser at ``origin`` is told; nothing unless the operator allows that origin."""
    if origin is None or origin not in allowed:
        return {}
    return {"Access-Control-Allow-Origin": origin} | _CORS

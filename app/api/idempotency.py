"""The answer under an Idempotency-Key: kept with the change that it speaks of, replayed byte for byte."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass

from flask import Response

from app.api.routes import JSON
from app.domain import times
from app.domain.errors import (
    BadInput,
    IdempotencyKeyBodyMismatch,
    IdempotencyKeyInFlight,
    IdempotencyKeyReplayWithheld,
)
from app.domain.model import Caller
from app.store import idempotency
from app.transaction import Transaction

_KEY = re.compile(r"[\x21-\x7e]{1,255}")
_KEPT_HEADERS = ("ETag", "Location")


@dataclass(frozen=True, slots=True)
class Keyed:
    """One write with its key. ``path`` is without the query."""

    caller: Caller
    method: str
    path: str
    key: str
    body: bytes


def once(tx: Transaction, keyed: Keyed, run: Callable[[], Response]) -> Response:
    """The answer of ``run``, kept; or the answer that was kept of an earlier request with the same key and body.

    :raises BadInput: for a key that can't be one; ``IdempotencyKeyInFlight`` while the first request still runs;
        ``IdempotencyKeyBodyMismatch`` for another body; ``IdempotencyKeyReplayWithheld`` if the answer wasn't kept.
    """
    if not _KEY.fullmatch(keyed.key):
        raise BadInput("Idempotency-Key must have 1 to 255 visible ASCII characters.")
    digest = idempotency.key_digest(keyed.caller, keyed.method, keyed.path, keyed.key)
    body_sha256 = hashlib.sha256(keyed.body).digest()
    locked, kept = idempotency.begin(tx, keyed.caller.tenant_id, digest)
    if not locked:
        raise IdempotencyKeyInFlight("The first request with this key still runs.", retryAfter=5)
    if kept is not None:
        return _replayed(kept, body_sha256)
    response = run()
    if response.status_code < 400:
        idempotency.keep(tx, keyed.caller.tenant_id, digest, _kept(response, body_sha256))
    return response


def _replayed(kept: idempotency.KeptAnswer, body_sha256: bytes) -> Response:
    if kept.body_sha256 not in (body_sha256, b""):
        raise IdempotencyKeyBodyMismatch("This key was used with another body.")
    if kept.body is None:
        raise IdempotencyKeyReplayWithheld(
            "The first request succeeded; its answer is not kept.", status=kept.status, at=times.wire(kept.at)
        )
    response = Response(kept.body, kept.status, headers=kept.headers, content_type=kept.content_type)
    response.headers["X-Idempotent-Replay"] = "true"
    return response


def _kept(response: Response, body_sha256: bytes) -> idempotency.KeptAnswer:
    body = None if getattr(response, "secret", False) else response.get_data()
    headers = {name: response.headers[name] for name in _KEPT_HEADERS if name in response.headers}
    return idempotency.KeptAnswer(
        body_sha256, response.status_code, response.content_type or JSON, body, headers, times.EPOCH
    )

"""Sealed list cursors: authenticated encryption, bound to the list, its filters and the caller, good for a day."""

from __future__ import annotations

import base64
import hashlib
import json
import time
from collections.abc import Callable
from datetime import datetime
from functools import cached_property
from typing import Any

from cryptography.fernet import Fernet, InvalidToken

from app.domain.errors import BadInput
from app.domain.model import Caller

DAY = 24 * 60 * 60

Position = tuple[datetime, str]
"""Where a page ended: the last row's time and id."""


class Sealer:
    """Seals and opens cursors with one secret, shared by all processes of the service.

    ``secret`` is asked for when it is first needed: the database that keeps it may not be there yet.
    """

    def __init__(self, secret: Callable[[], str], clock: Callable[[], float] = time.time) -> None:
        self._secret = secret
        self._clock = clock

    @cached_property
    def _fernet(self) -> Fernet:
        return Fernet(base64.urlsafe_b64encode(hashlib.sha256(self._secret().encode()).digest()))

    def seal(self, position: Position, binding: str) -> str:
        """A cursor for the page after ``position``."""
        at, last_id = position
        content = json.dumps([binding, at.isoformat(), last_id]).encode()
        return self._fernet.encrypt_at_time(content, int(self._clock())).decode().rstrip("=")

    def open(self, cursor: str, binding: str) -> Position:
        """Where the page before ended.

        :raises BadInput: for any cursor that wasn't sealed for this ``binding`` within a day.
        """
        try:
            sealed = _padded(cursor)
            sealed_binding, at, last_id = json.loads(self._fernet.decrypt_at_time(sealed, DAY, int(self._clock())))
        except (InvalidToken, ValueError):
            raise _unusable() from None
        if sealed_binding != binding:
            raise _unusable()
        return datetime.fromisoformat(at), last_id


def _padded(cursor: str) -> bytes:
    """What was sealed. Base64 spells some bytes in several ways: only the one that we gave out is a cursor.

    :raises ValueError: for any other.
    """
    padded = cursor.encode("ascii") + b"=" * (-len(cursor) % 4)
    if base64.urlsafe_b64encode(base64.urlsafe_b64decode(padded)) != padded or cursor.endswith("="):
        raise ValueError
    return padded


def _unusable() -> BadInput:
    return BadInput.at(
        "/query/cursor",
        "is not a cursor of this list, these filters and this caller from the last day; start without it",
    )


def binding_of(caller: Caller, path: str, filters: dict[str, Any]) -> str:
    """What a cursor is bound to: the caller, the list and its filters (without ``limit`` and ``cursor``)."""
    asked = {k: v for k, v in filters.items() if k not in ("limit", "cursor") and v not in (None, [], "")}
    scope = [caller.tenant_id, caller.principal.kind, caller.principal.id, path, sorted(asked.items())]
    if caller.participant is not None:
        scope += [caller.participant.run_id, caller.participant.participant_id]
    return hashlib.sha256(json.dumps(scope, default=str).encode()).hexdigest()[:32]

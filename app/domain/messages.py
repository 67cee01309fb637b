"""What is told to people and programs: word of one event, or of many in one message."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from app.domain import json_text, times
from app.domain.model import Principal

WITH_OWNER = "correction.with-owner"
REOPENED = "correction.reopened"
FIXED = "correction.fixed"
SUPERSEDED = "correction.superseded"
PARKED = "work.parked"
TEST = "notification.test"
DIGEST = "notification.digest"
ENDPOINT_ENDED = "notification.endpoint-ended"

EVENTS: tuple[str, ...] = (WITH_OWNER, REOPENED, FIXED, SUPERSEDED, PARKED, TEST)
"""What an endpoint may ask for. A digest holds these; that an endpoint ended is told in the inbox alone."""

MOST_IN_DIGEST = 100
"""Bodies that a digest shows; its ``total`` counts all."""


@dataclass(frozen=True, slots=True)
class Word:
    """Word of one event for the ``owners`` of its subject. ``key`` tells apart the times that ``type`` happened to
    ``about``: each is told once.

    ``data`` is what the wire shows. It holds ids and states, never what a person wrote: what was sent can't be erased.
    A word that stands for many is counted and has nothing to show.
    """

    type: str
    about: str
    key: str
    at: datetime
    project_id: str
    owners: tuple[Principal, ...]
    data: dict[str, Any] = field(default_factory=dict)
    stands_for: int = 1

    @property
    def sha256(self) -> bytes:
        """What tells it from all other words of its tenant."""
        return hashlib.sha256(json_text.dump([self.type, self.about, self.key]).encode()).digest()

    @property
    def body(self) -> str:
        """Its JSON when it comes alone."""
        return body(self.type, self.at, self.data)

    @property
    def shown(self) -> dict[str, Any]:
        """What a digest shows of it."""
        return {"type": self.type, "timestamp": times.wire(self.at), "data": self.data}


def together(words: Sequence[Word]) -> Word:
    """One word of all ``words``, the last of which tells them apart from others."""
    shown = [word.shown for word in words if word.stands_for == 1][:MOST_IN_DIGEST]
    data = {"total": sum(word.stands_for for word in words), "events": shown}
    return replace(words[-1], type=DIGEST, data=data, stands_for=1)


def body(type: str, at: datetime, data: dict[str, Any]) -> str:
    """The JSON of a message: ``{type, timestamp, data}``."""
    return json_text.dump({"type": type, "timestamp": times.wire(at), "data": data})


@dataclass(frozen=True, slots=True)
class Message:
    type: str
    body: str


def message(type: str, bodies: Sequence[str], total: int, now: datetime) -> Message:
    """One message of ``total`` words, of which ``bodies`` are the first: one word alone comes as itself."""
    if total == 1:
        return Message(type, bodies[0])
    shown = ",".join(bodies[:MOST_IN_DIGEST])
    head = f'"type":"{DIGEST}","timestamp":"{times.wire(now)}"'
    return Message(DIGEST, f'{{{head},"data":{{"total":{total},"events":[{shown}]}}}}')


def enveloped(type: str, at: datetime, data: str) -> str:
    """The JSON of a message whose ``data`` is JSON text already."""
    return f'{{"type":{json_text.dump(type)},"timestamp":"{times.wire(at)}","data":{data}}}'

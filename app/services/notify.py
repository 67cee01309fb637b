"""Tell people what happened to corrections, once each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import orjson

from app.domain.model import Principal
from app.store import notifications
from app.store.engine import Db
from app.store.notifications import Notice


@dataclass(frozen=True, slots=True)
class Event:
    """Something happened to a correction, such as ``correction.fixed``. ``key`` tells apart the times that it did."""

    type: str
    correction_id: str
    key: str


def tell_owners(tx: Db, tenant_id: str, events: Sequence[Event]) -> None:
    """Put word of each event into the inbox of each owner of the correction's subject."""
    owners: dict[str, list[Principal]] = {}
    for correction_id, owner in notifications.owners(tx, tenant_id, [event.correction_id for event in events]):
        owners.setdefault(correction_id, []).append(owner)
    tell(tx, tenant_id, [(event, owner) for event in events for owner in owners.get(event.correction_id, [])])


def tell(tx: Db, tenant_id: str, words: Sequence[tuple[Event, Principal]]) -> None:
    """Put word of each event into the inbox of the principal beside it; twice is once."""
    if not words:
        return
    said = notifications.summaries(tx, tenant_id, list({event.correction_id for event, _ in words}))
    notices = [
        Notice(to, event.type, event.correction_id, event.key, orjson.dumps(said[event.correction_id]).decode())
        for event, to in words
        if event.correction_id in said
    ]
    notifications.add(tx, tenant_id, notices)

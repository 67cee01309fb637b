"""Tell people and programs what happened to corrections, once each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

import orjson

from app.domain.messages import Word, together
from app.domain.model import Principal
from app.services.dispatch import dispatch
from app.store import notifications
from app.store.engine import Db
from app.store.notifications import Notice, Summary


@dataclass(frozen=True, slots=True)
class Event:
    """Something happened to a correction, such as ``correction.fixed``. ``key`` tells apart the times that it did.

    ``more`` is what word of it says besides what it says of the correction. ``at``: when it happened, if that isn't
    when the correction changed.
    """

    type: str
    correction_id: str
    key: str
    more: Mapping[str, Any] = field(default_factory=dict)
    at: datetime | None = None


def tell_owners(tx: Db, tenant_id: str, events: Sequence[Event]) -> None:
    """Put word of each event into the inbox of each owner of the correction's subject, and into the messages of the
    endpoints that it concerns."""
    words = _words(tx, tenant_id, events)
    _into_inboxes(tx, tenant_id, [(word, owner) for word in words for owner in word.owners])
    dispatch(tx, tenant_id, words)


def tell_owners_of_many(tx: Db, tenant_id: str, first: Sequence[Event], total: int, key: str) -> None:
    """Tell of ``total`` events of one type, subject and project as one: one digest in the inbox of each owner, and one
    message with what else it collects, that show the ``first`` of them. ``key`` tells it apart from other masses."""
    words = _words(tx, tenant_id, first)
    if words:
        words.append(replace(words[-1], about="many", key=key, data={}, stands_for=max(total - len(words), 1)))
        digest = together(words)
        _into_inboxes(tx, tenant_id, [(digest, owner) for owner in digest.owners])
        dispatch(tx, tenant_id, words)


def tell(tx: Db, tenant_id: str, events: Sequence[tuple[Event, Principal]]) -> None:
    """Put word of each event into the inbox of the principal beside it; twice is once."""
    if events:
        said = notifications.summaries(tx, tenant_id, _ids([event for event, _ in events]))
        known = [(event, to) for event, to in events if event.correction_id in said]
        _into_inboxes(tx, tenant_id, [(_word(event, said[event.correction_id]), to) for event, to in known])


def _words(tx: Db, tenant_id: str, events: Sequence[Event]) -> list[Word]:
    owners: dict[str, list[Principal]] = {}
    for correction_id, owner in notifications.owners(tx, tenant_id, _ids(events)):
        owners.setdefault(correction_id, []).append(owner)
    said = notifications.summaries(tx, tenant_id, _ids(events))
    return [
        _word(event, said[event.correction_id], owners.get(event.correction_id, ()))
        for event in events
        if event.correction_id in said
    ]


def _ids(events: Sequence[Event]) -> list[str]:
    return list({event.correction_id for event in events})


def _word(event: Event, summary: Summary, owners: Sequence[Principal] = ()) -> Word:
    return Word(
        event.type, event.correction_id, event.key, event.at or summary.updated_at, summary.project_id, tuple(owners),
        {**summary.data, **event.more},
    )  # fmt: skip


def _into_inboxes(tx: Db, tenant_id: str, words: Sequence[tuple[Word, Principal]]) -> None:
    notices = [Notice(to, word.type, word.about, word.key, orjson.dumps(word.data).decode()) for word, to in words]
    notifications.add(tx, tenant_id, notices)

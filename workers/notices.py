"""Jobs that tell people what happened."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from app.domain.jobs import NOTIFY, NOTIFY_MANY, Ids
from app.services.notify import Event, tell_owners, tell_owners_of_many
from app.store.engine import Db
from workers.task import Handler


def _notify(tx: Db, tenant_id: str, jobs: list[Ids]) -> None:
    tell_owners(tx, tenant_id, [_event(dict(ids)) for ids in jobs])


def _notify_many(tx: Db, tenant_id: str, jobs: list[Ids]) -> None:
    for ids in jobs:
        pairs = zip(ids["correctionIds"], ids["keys"], strict=True)
        first = [Event(ids["event"], correction, key) for correction, key in pairs]
        tell_owners_of_many(tx, tenant_id, first, ids["total"], ids["key"])


def _event(ids: dict[str, Any]) -> Event:
    at = datetime.fromisoformat(ids.pop("at")) if "at" in ids else None
    return Event(ids.pop("event"), ids.pop("correctionId"), ids.pop("key"), ids, at)


handlers = (Handler(NOTIFY, _notify), Handler(NOTIFY_MANY, _notify_many, together=False))

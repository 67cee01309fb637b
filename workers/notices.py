"""Jobs that tell people what happened."""

from __future__ import annotations

from typing import Any

from app.domain.jobs import NOTIFY, Ids
from app.services.notify import Event, tell_owners
from app.store.engine import Db
from workers.task import Handler


def _notify(tx: Db, tenant_id: str, jobs: list[Ids]) -> None:
    tell_owners(tx, tenant_id, [_event(dict(ids)) for ids in jobs])


def _event(ids: dict[str, Any]) -> Event:
    return Event(ids.pop("event"), ids.pop("correctionId"), ids.pop("key"), ids)


handlers = (Handler(NOTIFY, _notify),)

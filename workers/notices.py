"""Jobs that tell people what happened."""

from __future__ import annotations

from app.domain.jobs import NOTIFY, Ids
from app.services.notify import Event, tell_owners
from app.store.engine import Db
from workers.task import Handler


def _notify(tx: Db, tenant_id: str, jobs: list[Ids]) -> None:
    tell_owners(tx, tenant_id, [Event(ids["event"], ids["correctionId"], ids["key"]) for ids in jobs])


handlers = (Handler(NOTIFY, _notify),)

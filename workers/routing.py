"""Jobs that keep the queues true to the corrections."""

from __future__ import annotations

from app.domain.jobs import ROUTE, Ids
from app.services import route
from app.store.engine import Db
from workers.task import Handler


def _route(tx: Db, tenant_id: str, jobs: list[Ids]) -> None:
    route.sync(tx, tenant_id, [ids["correctionId"] for ids in jobs])


handlers = (Handler(ROUTE, _route),)

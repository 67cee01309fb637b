"""Jobs that do the bookkeeping of superseded corrections."""

from __future__ import annotations

from app.domain.jobs import SETTLE, Ids
from app.services.settle import settle
from app.store.engine import Db
from workers.task import Handler


def _settle(tx: Db, tenant_id: str, jobs: list[Ids]) -> None:
    settle(tx, tenant_id, [ids["correctionId"] for ids in jobs])


handlers = (Handler(SETTLE, _settle),)

"""Jobs that erase, step by step."""

from __future__ import annotations

from app.domain.jobs import ERASE, Ids
from app.services.erase import step
from app.transaction import Transaction
from workers.task import Handler


def _erase(tx: Transaction, tenant_id: str, jobs: list[Ids]) -> bool:
    (ids,) = jobs
    return step(tx, tenant_id, ids["erasureId"])


handlers = (Handler(ERASE, _erase, together=False),)

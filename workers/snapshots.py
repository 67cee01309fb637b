"""Jobs that add the replay context to the copies of corrected runs."""

from __future__ import annotations

from app.domain.jobs import CAPTURE, Ids
from app.services.capture import capture_context
from app.store.engine import Db
from workers.task import Handler


def _capture(tx: Db, tenant_id: str, jobs: list[Ids]) -> None:
    for ids in jobs:
        capture_context(tx, tenant_id, ids["runId"])


handlers = (Handler(CAPTURE, _capture, together=False),)

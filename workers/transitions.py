"""Jobs that apply what was accepted to the corrections."""

from __future__ import annotations

from app.domain.jobs import APPLY, Ids
from app.domain.model import Subject
from app.services.apply import step
from app.transaction import Transaction
from workers.task import Handler


def _apply(tx: Transaction, tenant_id: str, jobs: list[Ids]) -> bool:
    (ids,) = jobs
    return step(tx, tenant_id, ids["projectId"], Subject(ids["subjectKind"], ids["subjectId"]))


handlers = (Handler(APPLY, _apply, together=False),)
"""Each alone: a step is a transaction of its own, and the next one another."""

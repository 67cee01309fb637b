"""Jobs as rows: written with the change that they follow, sent by the relay, done when their effect is committed."""

from __future__ import annotations

import json
from collections.abc import Iterable

from app.domain.jobs import Job
from app.store.engine import Db

_PUT = """
INSERT INTO outbox (tenant_id, job, ids)
SELECT %(tenant)s, j.job, j.ids FROM json_to_recordset(%(jobs)s) AS j(job text, ids text)
"""


def put(db: Db, tenant_id: str, jobs: Iterable[Job]) -> None:
    """Add ``jobs`` in this transaction."""
    rows = as_rows(jobs)
    if rows != "[]":
        db.run(_PUT, {"tenant": tenant_id, "jobs": rows})


def as_rows(jobs: Iterable[Job]) -> str:
    """``jobs`` as the JSON that ``put`` and ``record_correction`` take."""
    return json.dumps([{"job": job.name, "ids": json.dumps(job.ids)} for job in jobs])

"""A worker whose one handler leaves a row for each time that it takes effect. Run as a process by tests."""

from __future__ import annotations

import os

from app import log
from app.config import read_settings
from app.domain.jobs import Ids
from app.store.engine import Db
from workers.celery import run_worker
from workers.task import Handler

JOB = "test.count"
TABLES = "CREATE TABLE effects (value text NOT NULL); CREATE TABLE gate ()"


def _count(tx: Db, tenant_id: str, jobs: list[Ids]) -> None:
    """Each job's effect. Waits before its end while somebody holds the gate."""
    tx.run("INSERT INTO effects SELECT unnest(%s)", ([ids["value"] for ids in jobs],))
    tx.run("LOCK TABLE gate IN ACCESS SHARE MODE")


if __name__ == "__main__":
    settings = read_settings(os.environ)
    log.configure("INFO")
    run_worker(settings, [Handler(JOB, _count)])

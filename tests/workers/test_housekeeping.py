"""Periodic tasks: what has expired goes, what should have happened happens, and nothing is done for nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import Engine

from app.config import Settings
from app.domain import jobs
from app.domain.jobs import HOUSEKEEPING, SWEEP
from app.services import route
from app.store import heartbeats, outbox, upkeep
from app.store.engine import create_engine, reading
from app.store.migrate import migrate
from app.transaction import transaction
from tests.conftest import new_database
from tests.factories import a_correction, a_run
from workers.housekeeping import Chore, chores, tend
from workers.task import Runner

LONG_AGO = "2026-01-01T00:00:00Z"


@pytest.fixture(scope="module")
def own_url(server_url: str) -> str:
    """A database of this module's own: periodic tasks serve all tenants."""
    url = new_database(server_url)
    migrate(url)
    return url


@pytest.fixture
def engine(own_url: str) -> Iterator[Engine]:
    engine = create_engine(own_url)
    yield engine
    with transaction(engine) as tx:
        tx.run("TRUNCATE outbox, erasures, copies, corrections, work_items, idempotency_answers CASCADE")
    engine.dispose()


@pytest.fixture
def runner(own_url: str) -> Runner:
    return Runner(Settings(database_url=own_url))


def do(runner: Runner, job: str) -> None:
    for chore in chores(Settings(trail_hours=24)):
        if chore.job == job:
            tend(runner, chore)


def count(engine: Engine, sql: str) -> Any:
    with reading(engine) as db:
        return db.value(sql)


def age(engine: Engine, table: str) -> None:
    with transaction(engine) as tx:
        tx.run(f"UPDATE {table} SET updated_at = now() - interval '2 minutes'")


def test_expired_answers_and_old_jobs_go(engine: Engine, tenant: str, runner: Runner) -> None:
    with transaction(engine) as tx:
        tx.run(
            "INSERT INTO idempotency_answers (tenant_id, key_sha256, body_sha256, status, at, expires_at)"
            " SELECT %s, sha256(n::text::bytea), '', 200, now(), now() + n * interval '1 hour'"
            "   FROM generate_series(-1499, 1) AS n",
            (tenant,),
        )
        outbox.put(tx, tenant, [jobs.route(str(n)) for n in range(3)])
        tx.run("UPDATE outbox SET done_at = now() - (ids::json->>'correctionId')::int * interval '23 hours'")
    do(runner, HOUSEKEEPING)
    assert count(engine, "SELECT count(*) FROM idempotency_answers") == 1
    assert count(engine, "SELECT array_agg(ids::json->>'correctionId' ORDER BY id) FROM outbox") == ["0", "1"]


def test_a_forgotten_capture_is_asked_for_once(engine: Engine, tenant: str, runner: Runner) -> None:
    with transaction(engine) as tx:
        for run, taken in (("forgotten", LONG_AGO), ("under-way", LONG_AGO), ("dead", LONG_AGO), ("young", "now")):
            tx.run(
                "INSERT INTO copies (tenant_id, run_id, project_id, subject_kind, subject_id, subject_version,"
                " captured_at, taken_at) VALUES (%s, %s, 'p', 'agent', 'a', '1', now(), %s)",
                (tenant, run, taken),
            )
        outbox.put(tx, tenant, [jobs.capture("under-way"), jobs.capture("dead")])
        tx.run("UPDATE outbox SET dead_at = now() WHERE ids LIKE '%%dead%%'")
    for _ in range(2):
        do(runner, SWEEP)
    runs = count(engine, "SELECT array_agg(ids::json->>'runId' ORDER BY id) FROM outbox")
    assert runs == ["under-way", "dead", "forgotten"]


def test_forgotten_events_are_applied(engine: Engine, tenant: str, runner: Runner) -> None:
    a_run(engine, tenant)
    with transaction(engine) as tx:
        tx.run("UPDATE running SET accepted_seq = 2, applied_seq = 1 WHERE tenant_id = %s", (tenant,))
        tx.run(
            "INSERT INTO accepted_events (tenant_id, project_id, subject_kind, subject_id, seq, kind, accepted_at,"
            " moved, decides) VALUES (%s, 'p', 'agent', 'support', 2, 'deploy', %s, true, 'none')",
            (tenant, LONG_AGO),
        )
    for _ in range(2):
        do(runner, SWEEP)
    asked = json.loads(count(engine, "SELECT json_agg(ids::json) FROM outbox"))
    assert asked == [{"projectId": "p", "subjectKind": "agent", "subjectId": "support"}]


def test_a_forgotten_erasure_goes_on(engine: Engine, tenant: str, runner: Runner) -> None:
    with transaction(engine) as tx:
        for erasure, phase in (("forgotten", "answers"), ("over", "done")):
            tx.run(
                "INSERT INTO erasures (tenant_id, id, kind, run_id, by_kind, by_id, asked_at, phase)"
                " VALUES (%s, %s, 'run', 'r', 'user', 'ann', %s, %s)",
                (tenant, erasure, LONG_AGO, phase),
            )
    for _ in range(2):
        do(runner, SWEEP)
    asked = json.loads(count(engine, "SELECT json_agg(ids::json) FROM outbox WHERE job = 'corrigenda.erase'"))
    assert asked == [{"erasureId": "forgotten"}]


def test_queues_are_put_right(engine: Engine, tenant: str, runner: Runner) -> None:
    left = a_correction(engine, tenant)
    forgotten, resorted, removed = (a_correction(engine, tenant) for _ in range(3))
    a_correction(engine, tenant, sorted_to=None)
    with transaction(engine) as tx:
        route.sync(tx, tenant, [left, resorted, removed])
        tx.run("UPDATE corrections SET sorted_to = 'developer' WHERE id = %s", (resorted,))
        tx.run("UPDATE corrections SET status = 'removed' WHERE id = %s", (removed,))
    do(runner, SWEEP)
    assert count(engine, "SELECT count(*) FROM work_items") == 3, "what changed just now is left to its own jobs"
    age(engine, "corrections")
    do(runner, SWEEP)
    with reading(engine) as db:
        rows = db.rows("SELECT correction_id, queue, state FROM work_items ORDER BY correction_id, created_at")
        assert upkeep.misplaced(db) == {}
        assert heartbeats.seconds_since(db)["sweep"] < 60
    assert rows == [
        (left, "improve", "ready"),
        (forgotten, "improve", "ready"),
        (resorted, "improve", "withdrawn"),
        (resorted, "developer", "ready"),
        (removed, "improve", "withdrawn"),
    ]


def test_a_step_that_fails_holds_up_no_other(engine: Engine, runner: Runner) -> None:
    done: list[str] = []

    def fails(tx: Any) -> bool:
        raise ValueError("step")

    def works(tx: Any) -> bool:
        done.append("once")
        return len(done) < 3

    with pytest.raises(ValueError, match="step"):
        tend(runner, Chore("test.chore", 1, {"fails": fails, "works": works}))
    assert len(done) == 3

"""How a task treats its rows: once in effect, failures counted, a database that is away forgiven."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import Engine

from app.config import Settings
from app.domain.errors import DatabaseBusy
from app.domain.jobs import Ids, Job
from app.store import outbox
from app.store.engine import Db, reading
from app.transaction import Transaction, transaction
from workers import task
from workers.task import Effect, Handler, Runner

JOB = "test.job"


@pytest.fixture
def runner(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Runner:
    monkeypatch.setattr(task, "PATIENCE", (0.0, 0.0))
    return Runner(settings)


@pytest.fixture
def put(engine: Engine, tenant: str) -> Callable[..., list[int]]:
    """Adds jobs about ``values`` to the outbox; their row ids."""

    def put(*values: str) -> list[int]:
        with transaction(engine) as tx:
            outbox.put(tx, tenant, [Job(JOB, {"value": value}) for value in values])
        with reading(engine) as db:
            rows = db.rows("SELECT id FROM outbox WHERE tenant_id = %s ORDER BY id", (tenant,))
        return [row[0] for row in rows[-len(values) :]]

    return put


def rows_of(engine: Engine, tenant: str) -> list[dict[str, Any]]:
    with reading(engine) as db:
        return db.dicts(
            "SELECT ids::json->>'value' AS value, failures, last_error, done_at IS NOT NULL AS done,"
            " dead_at IS NOT NULL AS dead, due_at > clock_timestamp() AS later"
            "  FROM outbox WHERE tenant_id = %s ORDER BY id",
            (tenant,),
        )


class Effects:
    """A visible effect: a tenant named for the value. ``bad`` values raise; ``calls`` are the batches seen."""

    def __init__(self, *bad: str) -> None:
        self.bad = bad
        self.calls: list[list[str]] = []

    def __call__(self, tx: Transaction, tenant_id: str, jobs: list[Ids]) -> None:
        values = [ids["value"] for ids in jobs]
        self.calls.append(values)
        for value in values:
            tx.run("INSERT INTO tenants (id, created_at) VALUES (%s, now())", (f"{tenant_id}-{value}",))
            if value in self.bad:
                raise ValueError("secret words of a caller")


def effects_of(engine: Engine, tenant: str) -> list[str]:
    with reading(engine) as db:
        rows = db.rows("SELECT id FROM tenants WHERE id LIKE %s ORDER BY id", (f"{tenant}-%",))
    return [row[0].removeprefix(f"{tenant}-") for row in rows]


def test_jobs_take_effect_together_and_once(
    engine: Engine, tenant: str, runner: Runner, put: Callable[..., list[int]]
) -> None:
    ids, effects = put("a", "b"), Effects()
    runner.run(Handler(JOB, effects), tenant, ids)
    runner.run(Handler(JOB, effects), tenant, ids)
    assert effects.calls == [["a", "b"]]
    assert effects_of(engine, tenant) == ["a", "b"]
    assert all(row["done"] for row in rows_of(engine, tenant))


def test_one_bad_job_spoils_no_other(
    engine: Engine, tenant: str, runner: Runner, put: Callable[..., list[int]]
) -> None:
    effects = Effects("bad")
    runner.run(Handler(JOB, effects), tenant, put("a", "bad", "c"))
    assert effects_of(engine, tenant) == ["a", "c"]
    bad = rows_of(engine, tenant)[1]
    assert (bad["done"], bad["failures"], bad["dead"], bad["later"]) == (False, 1, False, True)
    assert bad["last_error"].startswith("ValueError in __call__, line ")


def test_a_job_that_fails_too_often_is_dead_and_can_be_revived(
    engine: Engine, tenant: str, database_url: str, put: Callable[..., list[int]]
) -> None:
    runner = Runner(Settings(database_url=database_url, max_failures=3))
    ids, effects = put("bad"), Effects("bad")
    for _ in range(5):
        runner.run(Handler(JOB, effects), tenant, ids)
    assert len(effects.calls) == 3
    assert rows_of(engine, tenant)[0]["dead"]
    with transaction(engine) as tx:
        assert outbox.revive(tx) >= 1
    runner.run(Handler(JOB, Effects()), tenant, ids)
    assert rows_of(engine, tenant)[0]["done"]


def test_jobs_in_other_hands_are_left_alone(
    engine: Engine, tenant: str, runner: Runner, put: Callable[..., list[int]]
) -> None:
    ids, effects = put("a", "b"), Effects()
    with transaction(engine) as other:
        assert len(outbox.claim(other, tenant, JOB, ids[:1])) == 1
        runner.run(Handler(JOB, effects), tenant, ids)
    assert effects.calls == [["b"]]
    assert [row["done"] for row in rows_of(engine, tenant)] == [False, True]


def test_many_at_once_do_each_job_once(
    engine: Engine, tenant: str, settings: Settings, put: Callable[..., list[int]]
) -> None:
    ids, effects = put(*(f"v{i:02}" for i in range(40))), Effects()
    threads = [
        threading.Thread(target=Runner(settings).run, args=(Handler(JOB, effects, together=False), tenant, ids))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(value for call in effects.calls for value in call) == [f"v{i:02}" for i in range(40)]


def test_a_database_that_is_away_is_nobodys_failure(
    engine: Engine, tenant: str, runner: Runner, put: Callable[..., list[int]]
) -> None:
    tries = []

    def away(tx: Db, tenant_id: str, jobs: list[Ids]) -> None:
        tries.append(jobs)
        raise DatabaseBusy("away")

    runner.run(Handler(JOB, away), tenant, put("a"))
    assert len(tries) == len(task.PATIENCE) + 1
    row = rows_of(engine, tenant)[0]
    assert (row["done"], row["failures"]) == (False, 0)


def test_a_job_that_lost_its_worker_is_counted_before_it_starts(
    engine: Engine, tenant: str, runner: Runner, put: Callable[..., list[int]]
) -> None:
    seen: list[dict[str, Any]] = []

    def look(tx: Db, tenant_id: str, jobs: list[Ids]) -> None:
        seen.extend(rows_of(engine, tenant))

    runner.run(Handler(JOB, look), tenant, put("a"), wary=True)
    assert [(row["failures"], row["last_error"]) for row in seen] == [(1, "its worker was lost")]
    assert rows_of(engine, tenant)[0]["done"]


def test_a_job_in_steps_commits_each(
    engine: Engine, tenant: str, runner: Runner, put: Callable[..., list[int]]
) -> None:
    left = ["c", "b", "a"]

    def step(tx: Db, tenant_id: str, jobs: list[Ids]) -> bool:
        assert not any(row["done"] for row in rows_of(engine, tenant))
        assert effects_of(engine, tenant) == sorted({"a", "b", "c"} - set(left))
        tx.run("INSERT INTO tenants (id, created_at) VALUES (%s, now())", (f"{tenant_id}-{left.pop()}",))
        return bool(left)

    effect: Effect = step
    runner.run(Handler(JOB, effect), tenant, put("x"))
    assert effects_of(engine, tenant) == ["a", "b", "c"]
    assert rows_of(engine, tenant)[0]["done"]


def test_a_long_job_in_steps_lets_others_have_their_turn(
    engine: Engine, tenant: str, runner: Runner, put: Callable[..., list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task, "STEPPING_SECONDS", 0.0)
    steps: list[str] = []

    def step(tx: Db, tenant_id: str, jobs: list[Ids]) -> bool:
        steps.append("step")
        return len(steps) < 2

    ids = put("x")
    runner.run(Handler(JOB, step), tenant, ids)
    row = rows_of(engine, tenant)[0]
    assert (len(steps), row["done"], row["later"]) == (1, False, False)
    runner.run(Handler(JOB, step), tenant, ids)
    assert rows_of(engine, tenant)[0]["done"]

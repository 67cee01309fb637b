"""What a project keeps for some time only goes then; what it doesn't speak of, and what is still needed, stays."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import Engine

from app.config import Settings
from app.domain.jobs import RETENTION
from app.services import capture, route
from app.store import retention
from app.store.engine import create_engine, reading
from app.store.migrate import migrate
from app.transaction import transaction
from app.wsgi import create_app
from tests.client import Client
from tests.conftest import new_database
from tests.erasing import erased
from tests.factories import a_project, a_run
from tests.operation.machine import wait_for
from workers.housekeeping import chores, tend
from workers.task import Runner

SUBJECT = {"kind": "agent", "id": "support", "version": "1.0.0"}
SAID = {"answer": "wrong", "why": "no"}


@pytest.fixture(scope="module")
def settings(server_url: str) -> Settings:
    """A database of this module's own: periodic tasks serve all tenants."""
    url = new_database(server_url)
    migrate(url)
    return Settings(database_url=url)


@pytest.fixture
def engine(settings: Settings) -> Iterator[Engine]:
    engine = create_engine(settings.database_url)
    yield engine
    engine.dispose()


@pytest.fixture
def flask_app(settings: Settings) -> Flask:
    return create_app(settings)


class World:
    def __init__(self, engine: Engine, admin: Client, settings: Settings) -> None:
        assert admin.caller is not None
        self.engine, self.admin, self.settings, self.tenant = engine, admin, settings, admin.caller.tenant_id
        a_project(engine, self.tenant)

    def keep(self, **retention: int) -> None:
        assert self.admin.put("/v1/projects/p", {"retention": retention}).status_code == 200

    def run(self, run_id: str, **over: Any) -> str:
        return a_run(self.engine, self.tenant, id=run_id, **over)

    def record(self, run_id: str, **said: Any) -> str:
        made = self.admin.post("/v1/corrections", {"runId": run_id} | SAID | said)
        assert made.status_code == 201, made.text
        return str(made.json["id"])

    def captured(self, run_id: str) -> str:
        correction = self.record(run_id)
        with transaction(self.engine) as tx:
            assert capture.capture_context(tx, self.tenant, run_id)
        return correction

    def age(self, days: int) -> None:
        with transaction(self.engine) as tx:
            for table, column in (("runs", "ended_at"), ("corrections", "unregistered_at")):
                tx.run(
                    f"UPDATE {table} SET {column} = {column} - %s * interval '1 day' WHERE tenant_id = %s",
                    (days, self.tenant),
                )

    def purge(self) -> None:
        for chore in chores(self.settings):
            if chore.job == RETENTION:
                tend(Runner(self.settings), chore)

    def status(self, path: str) -> int:
        return self.admin.get(f"/v1/{path}").status_code

    def locks_waited_for(self) -> int:
        with reading(self.engine) as db:
            return int(
                db.value(
                    "SELECT count(*) FROM pg_locks l JOIN pg_database d ON d.oid = l.database"
                    " WHERE d.datname = current_database() AND l.locktype = 'advisory' AND NOT l.granted"
                )
            )

    def count(self, table: str) -> int:
        with reading(self.engine) as db:
            return int(db.value(f"SELECT count(*) FROM {table} WHERE tenant_id = %s", (self.tenant,)))


@pytest.fixture
def world(engine: Engine, admin: Client, settings: Settings) -> World:
    return World(engine, admin, settings)


def test_ended_runs_go_after_their_days(world: World) -> None:
    world.run("old")
    world.run("unended", status="running", output=None)
    world.run("elsewhere", project_id="q")
    world.age(3)
    world.run("young")
    world.purge()
    assert world.status("runs/old") == 200, "nothing was said of how long"
    world.keep(runsDays=4)
    world.purge()
    assert world.status("runs/old") == 200
    world.keep(runsDays=3)
    world.purge()
    asked = ("old", "unended", "elsewhere", "young")
    assert [world.status(f"runs/{run}") for run in asked] == [404, 200, 200, 200]
    refused = world.admin.post("/v1/corrections", {"runId": "old"} | SAID)
    assert refused.json["error"]["code"] == "run-not-found"


def test_a_copy_outlives_its_run(world: World) -> None:
    world.run("old", conversation_id="c", messages=["said"])
    world.run("later", conversation_id="c")
    first, second = world.captured("old"), world.captured("later")
    before = [world.admin.get(f"/v1/corrections/{one}").data for one in (first, second)]
    world.age(3)
    world.keep(runsDays=1)
    world.purge()
    assert world.status("runs/old") == 404
    assert [world.admin.get(f"/v1/corrections/{one}").data for one in (first, second)] == before
    assert len(world.admin.get("/v1/test-sets").json["data"]) == 2
    assert world.status(f"corrections/{first}/history") == 200
    assert world.admin.patch(f"/v1/corrections/{first}", {"note": "still"}).status_code == 200


def test_a_purged_step_of_a_flow_goes_with_its_conversation(world: World) -> None:
    """It stands in the flow's context alone by then, and the flow was of no conversation."""
    calls = [{"toolId": "look", "arguments": 1, "result": "words"}]
    world.run("flow", subject_kind="flow", subject_id="triage")
    world.run("step", parent_run_id="flow", conversation_id="talk", calls=calls)
    world.run("other", parent_run_id="flow", conversation_id="else", calls=calls)
    correction = world.captured("flow")
    world.age(3)
    world.keep(runsDays=1)
    world.purge()
    assert world.count("runs") == 0
    unknown = world.admin.post("/v1/erasures", {"conversationId": "none"})
    assert unknown.json["error"]["code"] == "conversation-not-found"
    assert erased(world.engine, world.admin, conversationId="talk")["counts"]["contexts"] == 1
    kept = world.admin.get(f"/v1/corrections/{correction}").json["run"]["context"]["flow"]
    assert [call["runId"] for call in kept["calls"]] == [step["runId"] for step in kept["steps"]] == ["other"]
    again = world.admin.post("/v1/erasures", {"conversationId": "talk"})
    assert again.json["error"]["code"] == "conversation-not-found"


def test_a_run_that_a_copy_still_waits_for_stays(world: World) -> None:
    world.run("old", retrieved=["r"])
    correction = world.record("old")
    world.age(3)
    world.keep(runsDays=1)
    world.purge()
    with transaction(world.engine) as tx:
        assert capture.capture_context(tx, world.tenant, "old")
    world.purge()
    assert world.status("runs/old") == 404
    assert world.admin.get(f"/v1/corrections/{correction}").json["run"]["context"] == {"retrieved": ["r"]}


def test_an_erased_run_stays_erased(world: World) -> None:
    world.run("old")
    with transaction(world.engine) as tx:
        tx.run("UPDATE runs SET erased_at = now() WHERE tenant_id = %s", (world.tenant,))
    world.age(3)
    world.keep(runsDays=1)
    world.purge()
    refused = world.admin.post("/v1/corrections", {"runId": "old"} | SAID)
    assert refused.json["error"]["code"] == "run-erased"


def test_superseded_and_removed_ones_go_with_all_that_is_theirs(world: World) -> None:
    world.run("a")
    world.run("b")
    superseded, removed = world.record("a"), world.record("b")
    with transaction(world.engine) as tx:
        route.sync(tx, world.tenant, [superseded, removed])
    live = world.record("a")
    world.admin.post(f"/v1/corrections/{removed}/remove")
    with transaction(world.engine) as tx:
        route.sync(tx, world.tenant, [superseded, removed, live])
    results = [{"correctionId": one, "verdict": "right"} for one in (superseded, live)]
    report = world.admin.post("/v1/test-runs", {"projectId": "p", "subject": SUBJECT, "results": results})
    world.age(3)
    world.keep(tombstonesDays=4)
    world.purge()
    assert world.status(f"corrections/{superseded}") == 200
    world.keep(tombstonesDays=3)
    world.purge()
    assert [world.status(f"corrections/{one}") for one in (superseded, removed, live)] == [404, 404, 200]
    assert (world.count("corrections"), world.count("work_items"), world.count("test_results")) == (1, 1, 1)
    assert world.status(f"corrections/{superseded}/history") == 404
    assert world.admin.get(f"/v1/test-runs/{report.json['id']}").json["counts"]["ignored"] == 1
    assert world.record("b"), "a purged correction stands in nobody's way"


def test_a_test_run_that_names_one_as_it_goes_is_refused(world: World) -> None:
    """The purge comes between the look at what is named and the storing of what was said of it."""
    world.run("a")
    superseded = world.record("a")
    live = world.record("a")
    with transaction(world.engine) as tx:
        route.sync(tx, world.tenant, [superseded, live])
    world.age(3)
    world.keep(tombstonesDays=1)
    results = [{"correctionId": one, "verdict": "right"} for one in (live, superseded)]
    body = {"projectId": "p", "subject": SUBJECT, "results": results}
    with ThreadPoolExecutor() as pool, transaction(world.engine) as tx:
        tx.run("SELECT lock_subject(%s, 'p', 'agent', 'support')", (world.tenant,))
        asked = pool.submit(world.admin.post, "/v1/test-runs", body)
        wait_for(lambda: world.locks_waited_for() == 1, 10)
        world.purge()
        assert world.status(f"corrections/{superseded}") == 404
    refused = asked.result()
    assert (refused.status_code, refused.json["error"]["code"]) == (400, "bad-input")
    assert [issue["path"] for issue in refused.json["error"]["details"]["issues"]] == ["/results/1/correctionId"]
    assert world.count("test_runs") == 0


def test_one_that_a_worker_must_still_see_to_stays(world: World) -> None:
    world.run("a")
    superseded = world.record("a")
    with transaction(world.engine) as tx:
        route.sync(tx, world.tenant, [superseded])
    world.record("a")
    world.age(3)
    world.keep(tombstonesDays=1)
    world.purge()
    assert world.status(f"corrections/{superseded}") == 200
    with transaction(world.engine) as tx:
        route.sync(tx, world.tenant, [superseded])
    world.purge()
    assert world.status(f"corrections/{superseded}") == 404


def test_a_copy_goes_with_the_last_that_shows_it(world: World) -> None:
    world.run("a")
    correction = world.captured("a")
    world.admin.post(f"/v1/corrections/{correction}/remove")
    world.age(3)
    world.keep(runsDays=1)
    world.purge()
    assert world.count("copies") == 1
    world.keep(runsDays=1, tombstonesDays=1)
    world.purge()
    assert (world.count("copies"), world.count("corrections"), world.count("runs")) == (0, 0, 0)


def test_what_somebody_has_in_hand_is_left_for_later(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "BATCH", 2)
    for n in range(5):
        world.run(f"r{n}")
    world.age(3)
    world.keep(runsDays=1)
    with transaction(world.engine) as tx:
        tx.run("SELECT lock_run(%s, %s)", (world.tenant, "r3"))
        world.purge()
        left = world.count("runs")
    world.purge()
    assert (left, world.count("runs")) == (1, 0)

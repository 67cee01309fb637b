from __future__ import annotations

import json
import threading
from typing import Any

import pytest
from sqlalchemy import Engine

from app.services.capture import capture_context
from app.store import copies
from app.store.engine import reading
from app.transaction import transaction
from tests.client import Client
from tests.factories import a_run


class World:
    """Runs of one tenant, corrected and captured."""

    def __init__(self, engine: Engine, tenant: str, admin: Client) -> None:
        self.engine, self.tenant, self.admin = engine, tenant, admin

    def run(self, run_id: str, **over: Any) -> str:
        return a_run(self.engine, self.tenant, id=run_id, **over)

    def correct(self, run_id: str) -> None:
        made = self.admin.post("/v1/corrections", {"runId": run_id, "answer": "right"})
        assert made.status_code == 201, made.text

    def capture(self, run_id: str) -> bool:
        with transaction(self.engine) as tx:
            return capture_context(tx, self.tenant, run_id)

    def context(self, run_id: str) -> dict[str, Any]:
        """The context of ``run_id``, corrected now."""
        self.correct(run_id)
        assert self.capture(run_id)
        return self.stored(run_id) or {}

    def stored(self, run_id: str) -> dict[str, Any] | None:
        with reading(self.engine) as db:
            text = db.value("SELECT context FROM copies WHERE tenant_id = %s AND run_id = %s", (self.tenant, run_id))
        return None if text is None else json.loads(text)

    def set(self, run_id: str, assignment: str) -> None:
        with transaction(self.engine) as tx:
            tx.run(f"UPDATE runs SET {assignment} WHERE tenant_id = %s AND id = %s", (self.tenant, run_id))


@pytest.fixture
def world(engine: Engine, tenant: str, admin: Client) -> World:
    return World(engine, tenant, admin)


def test_an_agent_run_gets_what_was_said_before_it(world: World) -> None:
    world.run("one", conversation_id="c", messages=["1a", "1b"])
    world.run("two", conversation_id="c", messages=["2"], status="failed", output=None)
    world.run("other", conversation_id="d", messages=["d"])
    world.run("elsewhere", conversation_id="c", messages=["q"], project_id="q")
    world.run("silent", conversation_id="c")
    env_call = {"toolId": "t", "arguments": 1, "result": 1, "env": {"A": "b"}}
    gate = {"approved": True}
    world.run("mine", conversation_id="c", messages=["3"], retrieved={"r": 1}, recalled=[2], replay_of="r0",
              session_approval=gate, calls=[env_call])  # fmt: skip
    assert world.context("mine") == {
        "history": ["1a", "1b", "2"],
        "retrieved": {"r": 1},
        "recalled": [2],
        "sessionApproval": {"approved": True},
        "toolEnv": {"t": {"A": "b"}},
        "replayOf": "r0",
    }
    assert world.context("one") == {"history": []}


def test_the_context_is_shown_with_the_copy(world: World) -> None:
    world.run("mine", conversation_id="c")
    made = world.admin.post("/v1/corrections", {"runId": "mine", "answer": "right"}).json
    before = world.admin.get(f"/v1/corrections/{made['id']}")
    assert "context" not in before.json["run"]
    assert world.capture("mine")
    after = world.admin.get(f"/v1/corrections/{made['id']}")
    assert after.json["run"]["context"] == {"history": []}
    assert after.headers["ETag"] == before.headers["ETag"]


def test_without_a_conversation_there_is_no_history(world: World) -> None:
    world.run("before", messages=["x"])
    world.run("mine")
    assert world.context("mine") == {}


def test_a_runs_time_is_its_start_else_its_arrival(world: World) -> None:
    world.run("started-late", conversation_id="c", messages=["late"], started_at="2100-01-01T00:00:00Z")
    world.run("second", conversation_id="c", messages=["second"], started_at="2026-01-02T00:00:00Z")
    world.run("first", conversation_id="c", messages=["first"], started_at="2026-01-01T00:00:00Z")
    world.run("third-a", conversation_id="c", messages=["third-a"], started_at="2026-01-03T00:00:00Z")
    world.run("third-b", conversation_id="c", messages=["third-b"], started_at="2026-01-03T00:00:00Z")
    world.run("arrived", conversation_id="c", messages=["arrived"])
    world.run("mine", conversation_id="c", messages=["mine"])
    assert world.context("mine")["history"] == ["first", "second", "third-a", "third-b", "arrived"]


def test_only_the_last_200_messages_are_kept(world: World) -> None:
    for n in range(5):
        world.run(f"r{n}", conversation_id="c", messages=[f"{n}-{m}" for m in range(50)])
    expected = [f"{n}-{m}" for n in range(5) for m in range(50)]
    context = world.context("r4")
    assert (context["history"], "historyTruncated" in context) == (expected[:200], False)
    world.run("mine", conversation_id="c")
    assert world.context("mine") == {"history": expected[-200:], "historyTruncated": True}


def test_a_late_worker_sees_what_there_was_at_the_first_correction(world: World) -> None:
    world.run("before", conversation_id="c", messages=["before"], started_at="2026-01-01T00:00:00Z")
    world.run("running", conversation_id="c", messages=["running"], status="running", output=None)
    world.run("mine", conversation_id="c")
    world.run("flow", subject_kind="flow")
    world.run("step", parent_run_id="flow", status="running", output=None)
    world.correct("mine")
    world.correct("flow")
    world.run("late", conversation_id="c", messages=["late"], started_at="2026-01-01T00:00:00Z")
    world.run("late-step", parent_run_id="flow", started_at="2026-01-01T00:00:00Z")
    for run_id in ("running", "step"):
        world.set(run_id, "status = 'completed', ended_at = clock_timestamp()")
    world.correct("mine")
    assert world.capture("mine")
    assert world.capture("flow")
    assert world.stored("mine") == {"history": ["before"]}
    assert world.stored("flow") == {"flow": {"calls": [], "steps": []}}


def test_capturing_twice_changes_nothing(world: World) -> None:
    world.run("mine", conversation_id="c")
    assert not world.capture("mine")
    assert not world.capture("nope")
    assert world.context("mine") == {"history": []}
    world.set("mine", "retrieved = '1'")
    assert not world.capture("mine")
    assert world.stored("mine") == {"history": []}


def test_erased_runs_give_nothing(world: World) -> None:
    world.run("gone", conversation_id="c", messages=["gone"])
    world.run("mine", conversation_id="c")
    world.run("flow", subject_kind="flow")
    world.run("step", parent_run_id="flow", calls=[{"toolId": "t", "arguments": 1, "result": 1}])
    for run_id in ("gone", "step"):
        world.set(run_id, "erased_at = now()")
    assert world.context("mine") == {"history": []}
    assert world.context("flow") == {"flow": {"calls": [], "steps": []}}


def test_an_erased_copy_stays_empty(world: World) -> None:
    world.run("mine", conversation_id="c")
    world.correct("mine")
    with transaction(world.engine) as tx:
        tx.run("UPDATE copies SET erased_at = now(), input = NULL, output = NULL WHERE tenant_id = %s", (world.tenant,))
    assert not world.capture("mine")
    assert world.stored("mine") is None


@pytest.mark.parametrize("kind", ["agent", "flow"])
def test_a_copy_outlives_its_run(world: World, kind: str) -> None:
    world.run("mine", subject_kind=kind, conversation_id="c", replay_of="r0")
    world.correct("mine")
    with transaction(world.engine) as tx:
        tx.run("DELETE FROM runs WHERE tenant_id = %s", (world.tenant,))
    assert world.capture("mine")
    assert world.stored("mine") == {"replayOf": "r0"}


def a_call(tool: str) -> list[dict[str, Any]]:
    return [{"toolId": tool, "arguments": {}, "result": None}]


def test_a_flow_run_gets_what_it_did(world: World) -> None:
    world.run("flow", subject_kind="flow", subject_id="f", calls=a_call("own"), conversation_id="c", retrieved=1)
    world.run("b", parent_run_id="flow", started_at="2026-01-02T00:00:00Z", node_id="ask", calls=a_call("b"))
    world.run("a", parent_run_id="flow", started_at="2026-01-01T00:00:00Z", subject_kind="flow", calls=a_call("a"))
    world.run("a-2", parent_run_id="a", retrieved=[1], calls=a_call("a-2"))
    world.run("a-1", parent_run_id="a", started_at="2026-01-05T00:00:00Z", status="failed", output=None,
              calls=a_call("a-1"))  # fmt: skip
    world.run("unended", parent_run_id="flow", status="running", output=None, calls=a_call("unended"))
    world.run("below-unended", parent_run_id="unended", calls=a_call("below-unended"))
    world.run("elsewhere", parent_run_id="flow", project_id="q", calls=a_call("elsewhere"))
    flow = world.context("flow")["flow"]
    assert [(call["runId"], call["toolId"], call.get("nodeId")) for call in flow["calls"]] == [
        ("flow", "own", None),
        ("a", "a", None),
        ("a-1", "a-1", None),
        ("a-2", "a-2", None),
        ("b", "b", "ask"),
        ("below-unended", "below-unended", None),
    ]
    assert flow["steps"] == [
        {"runId": "a-1", "agentId": "support", "agentVersion": "1.0.0"},
        {"runId": "a-2", "agentId": "support", "agentVersion": "1.0.0", "retrieved": [1]},
        {"runId": "b", "nodeId": "ask", "agentId": "support", "agentVersion": "1.0.0"},
        {"runId": "below-unended", "agentId": "support", "agentVersion": "1.0.0"},
    ]
    assert "history" not in world.stored("flow")


def test_a_circle_of_parents_ends(world: World) -> None:
    world.run("one", subject_kind="flow", parent_run_id="two", calls=a_call("one"))
    world.run("two", subject_kind="flow", parent_run_id="one", calls=a_call("two"))
    world.run("self", subject_kind="flow", parent_run_id="self", calls=a_call("self"))
    assert [call["runId"] for call in world.context("one")["flow"]["calls"]] == ["one", "two"]
    assert [call["runId"] for call in world.context("self")["flow"]["calls"]] == ["self"]


def test_large_parts_are_read_a_few_at_a_time(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copies, "_BATCH_BYTES", 100)
    monkeypatch.setattr(copies, "_BATCH_ROWS", 3)
    for n in range(10):
        world.run(f"r{n}", conversation_id="c", messages=[f"{n} " + "x" * 20 * n])
        world.run(f"s{n}", parent_run_id="flow", calls=a_call(f"{n} " + "x" * 20 * n))
    world.run("mine", conversation_id="c")
    world.run("flow", subject_kind="flow")
    assert [message.split()[0] for message in world.context("mine")["history"]] == [str(n) for n in range(10)]
    assert [call["runId"] for call in world.context("flow")["flow"]["calls"]] == [f"s{n}" for n in range(10)]


def test_an_erasure_waits_for_the_context_that_holds_its_words(world: World) -> None:
    world.run("gone", conversation_id="c", messages=["gone"])
    world.run("mine", conversation_id="c")
    world.correct("mine")
    seen: list[dict[str, Any] | None] = []

    def erase() -> None:
        world.set("gone", "erased_at = now(), messages = NULL")
        seen.append(world.stored("mine"))

    with transaction(world.engine) as tx:
        capture_context(tx, world.tenant, "mine")
        eraser = threading.Thread(target=erase)
        eraser.start()
        eraser.join(0.3)
        assert seen == []
    eraser.join()
    assert seen == [{"history": ["gone"]}]

"""What was erased is nowhere any more; what stays is what somebody else said, and the verdicts."""

from __future__ import annotations

import hashlib
import json
import threading
from typing import Any

import pytest
from sqlalchemy import Engine

from app.config import Settings
from app.domain.jobs import ERASE
from app.domain.messages import FIXED, WITH_OWNER
from app.domain.model import Grant, RunContent, Subject
from app.services import erase, route
from app.services.capture import capture_context
from app.services.notify import Event, tell_owners
from app.store import runs
from app.store.engine import reading
from app.transaction import transaction
from tests.client import Client
from tests.conftest import ClientOf
from tests.erasing import dump, erased, work
from tests.factories import a_project, an_owner
from workers.erasing import handlers
from workers.task import Runner

MARKER = "MARKER-7f3a9c"
SUBJECT = {"kind": "agent", "id": "support", "version": "1.0.0"}
FLOW = {"kind": "flow", "id": "triage", "version": "1.0.0"}


class World:
    def __init__(self, engine: Engine, admin: Client, database_url: str) -> None:
        assert admin.caller is not None
        self.engine, self.admin, self.tenant, self._url = engine, admin, admin.caller.tenant_id, database_url
        a_project(engine, self.tenant)

    def put(self, run_id: str, key: str | None = None, **over: Any) -> None:
        body = {"projectId": "p", "subject": SUBJECT, "status": "completed", "input": "in", "output": "out"} | over
        answer = self.admin.put(f"/v1/runs/{run_id}", body, headers={"Idempotency-Key": key} if key else {})
        assert answer.status_code in (200, 201), answer.text

    def record(self, run_id: str, key: str | None = None, **said: Any) -> str:
        body = {"runId": run_id, "answer": "wrong", "why": "no"} | said
        answer = self.admin.post("/v1/corrections", body, headers={"Idempotency-Key": key} if key else {})
        assert answer.status_code == 201, answer.text
        return str(answer.json["id"])

    def capture(self, *run_ids: str) -> None:
        for run_id in run_ids:
            with transaction(self.engine) as tx:
                assert capture_context(tx, self.tenant, run_id)

    def get(self, correction_id: str) -> dict[str, Any]:
        return dict(self.admin.get(f"/v1/corrections/{correction_id}").json)

    def erase(self, **target: str) -> dict[str, Any]:
        return erased(self.engine, self.admin, **target)

    def dumped(self, text: str) -> list[str]:
        """Lines of a dump of the database that hold ``text``, or its bytes."""
        spelled = (text, text.encode().hex())
        return [line[:300] for line in dump(self._url).splitlines() if any(one in line for one in spelled)]

    def value(self, sql: str) -> Any:
        with reading(self.engine) as db:
            return db.value(sql, {"tenant": self.tenant})


@pytest.fixture
def world(engine: Engine, admin: Client, database_url: str) -> World:
    return World(engine, admin, database_url)


def a_marked_run() -> dict[str, Any]:
    call = {"toolId": "look", "arguments": {"q": MARKER}, "result": MARKER, "env": {"KEY": MARKER}}
    return {
        "input": {"text": MARKER}, "output": {"text": [MARKER]}, "messages": [{"content": MARKER}, {"n": 1.0}],
        "retrieved": [MARKER], "recalled": {MARKER: 1}, "calls": [call], "conversationId": "talk",
        "segments": [{"key": "who", "value": MARKER}], "sessionApproval": {"approved": True, "rationale": MARKER},
    }  # fmt: skip


def test_a_run_and_all_that_was_copied_of_it_go(world: World) -> None:
    own_call = [{"toolId": "own", "arguments": 1, "result": 1, "env": {"A": "b"}}]
    world.put("first", messages=[{"n": 1e3}], conversationId="talk")
    world.put("flow", subject=FLOW, calls=own_call)
    world.put("marked", key="put-marked", parentRunId="flow", **a_marked_run())
    world.put("later", messages=["x"], conversationId="talk")
    marked, flow, later = (world.record(run, f"record-{run}") for run in ("marked", "flow", "later"))
    world.capture("marked", "flow", "later")
    with transaction(world.engine) as tx:
        route.sync(tx, world.tenant, [marked, flow, later])
    claim = {"queue": "improve", "limit": 10}
    assert world.admin.post("/v1/work/claims", claim, headers={"Idempotency-Key": "c"}).text.count(MARKER) > 10
    etag = world.admin.get(f"/v1/corrections/{later}").headers["ETag"]
    assert world.dumped(MARKER)

    done = world.erase(runId="marked")
    assert done["counts"] == {"runs": 1, "copies": 1, "contexts": 2, "corrections": 0, "answers": 2}
    assert world.dumped(MARKER) == []

    run = world.admin.get("/v1/runs/marked").json
    assert (run["input"], run["output"], "messages" in run, "segments" in run) == (None, None, False, False)
    assert run["erasedAt"]
    shown = world.get(marked)
    assert shown["answer"] == "wrong"
    assert shown["run"] == {
        "runId": "marked", "subject": SUBJECT, "input": None, "output": None, "segments": [],
        "capturedAt": shown["run"]["capturedAt"], "erasedAt": shown["run"]["erasedAt"],
    }  # fmt: skip
    assert world.get(later)["run"]["context"] == {"history": [{"n": 1e3}]}
    kept = {"runId": "flow", "toolId": "own", "arguments": 1, "result": 1}
    context = world.get(flow)["run"]["context"]
    assert context == {"flow": {"calls": [kept], "steps": []}, "toolEnv": {"own": {"A": "b"}}}
    assert world.admin.get(f"/v1/corrections/{later}", headers={"If-None-Match": etag}).status_code == 200

    assert [case["runId"] for case in world.admin.get("/v1/test-sets").json["data"]] == ["later", "flow"]
    for body in (
        {"runId": "marked", "answer": "right"},
        {"runId": "marked", "items": [{"key": "a", "verdict": "right"}]},
    ):
        refused = world.admin.post("/v1/corrections", body)
        assert (refused.status_code, refused.json["error"]["code"]) == (410, "run-erased")
    again = world.admin.put(
        "/v1/runs/marked",
        {"projectId": "p", "subject": SUBJECT, "status": "completed", "input": 1, "output": 2},
    )
    assert (again.status_code, again.json["error"]["code"]) == (410, "run-erased")


def test_kept_answers_that_held_the_words_are_withheld_and_no_others(world: World) -> None:
    body = {"projectId": "p", "subject": SUBJECT, "status": "completed", "input": MARKER, "output": 1}
    world.put("gone", key="k", input=MARKER, output=1)
    world.put("kept", key="k", input="other", output=1)
    said = {"runId": "gone", "answer": "right"}
    first = world.admin.post("/v1/corrections", said, headers={"Idempotency-Key": "r"})
    world.erase(runId="gone")
    replay = world.admin.put("/v1/runs/gone", body, headers={"Idempotency-Key": "k"})
    assert (replay.status_code, replay.json["error"]["code"]) == (409, "idempotency-key-replay-withheld")
    assert replay.json["error"]["details"]["status"] == 201
    kept = world.admin.put("/v1/runs/kept", body | {"input": "other"}, headers={"Idempotency-Key": "k"})
    assert (kept.status_code, kept.headers["X-Idempotent-Replay"]) == (201, "true")
    replay = world.admin.post("/v1/corrections", said, headers={"Idempotency-Key": "r"})
    assert (replay.status_code, replay.data) == (201, first.data)


def test_no_hash_of_what_was_said_stays_under_a_key(world: World) -> None:
    """Short words, and ids of people, can be guessed from one."""
    world.put("a")
    headers = {"Idempotency-Key": "k"}
    sent = b'{"runId":"a","answer":"wrong","why":"no","participantId":"ann@example.com"}'
    digest = hashlib.sha256(sent).hexdigest()
    assert world.admin.send("POST", "/v1/corrections", data=sent, headers=headers).status_code == 201
    assert world.dumped(digest)
    world.erase(participantId="ann@example.com")
    assert world.dumped(digest) == []
    for body in (sent, b"{}"):
        replay = world.admin.send("POST", "/v1/corrections", data=body, headers=headers)
        assert (replay.status_code, replay.json["error"]["code"]) == (409, "idempotency-key-replay-withheld")


def test_a_conversation_is_all_its_runs(world: World) -> None:
    for n in range(3):
        world.put(f"turn-{n}", conversationId="talk", messages=[f"{MARKER} {n}"], input=MARKER)
    world.put("elsewhere", conversationId="other", messages=["kept"], input="kept")
    for run in ("turn-1", "turn-2", "elsewhere"):
        world.record(run)
        world.capture(run)
    with transaction(world.engine) as tx:
        tx.run("DELETE FROM runs WHERE tenant_id = %s AND id = 'turn-2'", (world.tenant,))
    done = world.erase(conversationId="talk")
    assert done["counts"] == {"runs": 2, "copies": 2, "contexts": 0, "corrections": 0, "answers": 0}
    assert world.dumped(MARKER) == []
    assert world.admin.get("/v1/runs/elsewhere").json["input"] == "kept"
    world.put("next", conversationId="talk", input="new")
    assert world.admin.get("/v1/runs/next").json["input"] == "new"


def test_what_a_purged_run_left_behind_can_be_erased(world: World) -> None:
    world.put("first", conversationId="talk", messages=[MARKER])
    world.put("later", conversationId="talk")
    correction = world.record("later")
    world.capture("later")
    with transaction(world.engine) as tx:
        tx.run("DELETE FROM runs WHERE tenant_id = %s AND id = 'first'", (world.tenant,))
    assert world.erase(runId="first")["counts"]["contexts"] == 1
    assert world.get(correction)["run"]["context"] == {"history": []}
    assert world.dumped(MARKER) == []


@pytest.mark.parametrize("target", [{"runId": "marked"}, {"conversationId": "talk"}])
def test_a_purged_run_that_was_erased_stays_erased(world: World, target: dict[str, str]) -> None:
    world.put("marked", **a_marked_run())
    correction = world.record("marked")
    world.capture("marked")
    with transaction(world.engine) as tx:
        tx.run("DELETE FROM runs WHERE tenant_id = %s AND id = 'marked'", (world.tenant,))
    assert world.erase(**target)["counts"]["copies"] == 1
    run = world.admin.get("/v1/runs/marked").json
    assert (run["input"], run["output"], run["status"], run["subject"]) == (None, None, "completed", SUBJECT)
    assert run["erasedAt"]
    body = {"projectId": "p", "subject": SUBJECT, "status": "completed", "input": 1, "output": 2}
    put = world.admin.put("/v1/runs/marked", body)
    recorded = world.admin.post("/v1/corrections", {"runId": "marked", "answer": "right"})
    for refused in (put, recorded):
        assert (refused.status_code, refused.json["error"]["code"]) == (410, "run-erased")
    assert world.get(correction)["run"]["input"] is None
    assert world.dumped(MARKER) == []


def test_a_purged_run_that_comes_back_as_it_is_erased_is_erased(world: World) -> None:
    world.put("marked", **a_marked_run())
    world.record("marked")
    with transaction(world.engine) as tx:
        tx.run("DELETE FROM runs WHERE tenant_id = %s AND id = 'marked'", (world.tenant,))
    erasure = world.admin.post("/v1/erasures", {"runId": "marked"}).json["id"]
    eraser = threading.Thread(target=work, args=(world.engine, world.tenant, erasure))
    content = RunContent(
        project_id="p", subject=Subject("agent", "support", "1.0.0"), status="completed", content_sha256=b"x",
        input=f'"{MARKER}"', output="1",
    )  # fmt: skip
    with transaction(world.engine) as tx:
        assert runs.add(tx, world.tenant, "marked", content)
        eraser.start()
        eraser.join(0.3)
        assert eraser.is_alive()
    eraser.join()
    assert world.admin.get("/v1/runs/marked").json["erasedAt"]
    assert world.dumped(MARKER) == []


def test_a_participants_words_go_and_the_verdicts_stay(world: World) -> None:
    who = f"ann {MARKER}@example.com"
    world.put("a")
    world.put("b")
    older = world.record("a", "one", participantId=who, why=MARKER, shouldSay=MARKER)
    live = world.record("a", "two", participantId=who, why=f"again {MARKER}")
    removed = world.record("b", participantId=who, shouldSay=f"é {MARKER}")
    other = world.record("b", participantId="bob", why="his")
    note = {"note": MARKER, "sortedTo": "improve", "reason": MARKER}
    assert world.admin.patch(f"/v1/corrections/{live}", note, headers={"Idempotency-Key": "n"}).status_code == 200
    world.admin.post(f"/v1/corrections/{removed}/remove", {"note": MARKER})
    with transaction(world.engine) as tx:
        route.sync(tx, world.tenant, [live])
    claims = world.admin.post("/v1/work/claims", {"queue": "improve"}, headers={"Idempotency-Key": "c"})
    item = claims.json["items"][0]
    release = {"leaseToken": item["leaseToken"], "reason": MARKER}
    assert world.admin.post(f"/v1/work/{item['workItemId']}/release", release).status_code == 200
    results = [{"correctionId": live, "verdict": "wrong", "detail": {"said": MARKER}}]
    report = {"projectId": "p", "subject": SUBJECT, "results": results}
    assert world.admin.post("/v1/test-runs", report).status_code == 202
    before = world.get(live)
    assert len(world.dumped(MARKER)) > 10

    done = world.erase(participantId=who)
    assert done["counts"] == {"runs": 0, "copies": 0, "contexts": 0, "corrections": 3, "answers": 4}
    assert world.dumped(MARKER) == []
    digest = world.value("SELECT encode(sha256(convert_to('ann MARKER-7f3a9c@example.com', 'UTF8')), 'hex')")
    assert world.dumped(digest) == []

    shown = world.get(live)
    gone = {"why", "shouldSay", "statusNote", "participantId"}
    assert {name: value for name, value in shown.items() if name not in ("sorted", "updatedAt")} == {
        name: value for name, value in before.items() if name not in gone | {"sorted", "updatedAt"}
    }
    assert shown["sorted"] == {name: value for name, value in before["sorted"].items() if name != "reason"}
    assert shown["updatedAt"] > before["updatedAt"]
    assert world.get(removed)["status"] == "removed"
    assert world.get(older)["supersededBy"] == live
    assert world.get(other)["why"] == "his"
    history = world.admin.get(f"/v1/corrections/{live}/history").json["data"]
    assert [row["kind"] for row in history] == ["recorded", "sorted", "noted"]
    assert all("reason" not in row for row in history)

    newer = world.record("a", participantId=who)
    assert "supersededBy" not in world.get(live), "it counts for no participant any more"
    kept = world.admin.get("/v1/corrections?limit=100").json["data"]
    assert {row["id"] for row in kept} == {live, other, newer}
    assert world.value("SELECT bool_and(end_user) FROM corrections WHERE tenant_id = %(tenant)s") is True
    replay = world.admin.patch(f"/v1/corrections/{live}", note, headers={"Idempotency-Key": "n"})
    assert replay.json["error"]["code"] == "idempotency-key-replay-withheld"
    assert world.erase(participantId=who)["counts"]["corrections"] == 1


def test_words_dont_travel_in_messages(world: World) -> None:
    world.put("a")
    an_owner(world.engine, world.tenant, "olga")
    scope = {"kind": "project", "projectId": "p"}
    endpoint = {"kind": "email", "target": "o@example.com", "events": [FIXED, WITH_OWNER], "scope": scope}
    assert world.admin.post("/v1/notification-endpoints", endpoint).status_code == 201
    said = world.record("a", participantId=MARKER, why=MARKER, shouldSay=MARKER)
    world.admin.patch(f"/v1/corrections/{said}", {"note": MARKER, "sortedTo": "owner", "reason": MARKER})
    with transaction(world.engine) as tx:
        tell_owners(tx, world.tenant, [Event(FIXED, said, "1"), Event(WITH_OWNER, said, "1")])
    told = ("notifications", "delivery_words", "outbox")
    assert all(world.value(f"SELECT count(*) FROM {table} WHERE tenant_id = %(tenant)s") for table in told)
    held = {line.split()[2] for line in world.dumped(MARKER)}
    assert held == {"public.corrections", "public.correction_history"}
    world.erase(participantId=MARKER)
    assert world.dumped(MARKER) == []


def test_a_worker_does_it(world: World, settings: Settings) -> None:
    world.put("a", input=MARKER)
    erasure = world.admin.post("/v1/erasures", {"runId": "a"}).json["id"]
    with reading(world.engine) as db:
        (job,) = db.rows("SELECT id FROM outbox WHERE tenant_id = %s AND job = %s", (world.tenant, ERASE))
    (handler,) = handlers
    Runner(settings).run(handler, world.tenant, job)
    assert world.admin.get(f"/v1/erasures/{erasure}").json["status"] == "done"
    assert world.value("SELECT count(*) FROM erasure_items WHERE tenant_id = %(tenant)s") == 0
    assert world.value("SELECT bool_and(done_at IS NOT NULL) FROM outbox WHERE tenant_id = %(tenant)s") is True


def test_only_those_who_could_have_asked_see_it(world: World, client_of: ClientOf) -> None:
    world.put("a", conversationId="talk")
    world.record("a", participantId="ann")
    keeper = client_of(grants=[Grant("project", "admin", "p")])
    for body in ({"conversationId": "talk"}, {"participantId": "ann"}, {"participantId": "nobody"}):
        assert keeper.post("/v1/erasures", body).json["error"]["code"] == "permission-denied"
    of_run = keeper.post("/v1/erasures", {"runId": "a"}).json["id"]
    of_person = world.admin.post("/v1/erasures", {"participantId": "ann"}).json["id"]
    assert keeper.get(f"/v1/erasures/{of_run}").json["status"] == "running"
    assert keeper.get(f"/v1/erasures/{of_person}").json["error"]["code"] == "erasure-not-found"
    assert world.admin.get(f"/v1/erasures/{of_run}").status_code == 200
    assert client_of(grants=[Grant("tenant", "admin")]).get(f"/v1/erasures/{of_person}").status_code == 200


def test_a_put_that_changes_nothing_holds_its_run_until_its_answer_is_kept(world: World) -> None:
    world.put("a", input=MARKER)
    erasure = world.admin.post("/v1/erasures", {"runId": "a"}).json["id"]
    eraser = threading.Thread(target=work, args=(world.engine, world.tenant, erasure))
    with transaction(world.engine) as tx:
        assert MARKER in (runs.show(tx, world.tenant, "a", hold=True) or "")
        eraser.start()
        eraser.join(0.3)
        assert eraser.is_alive()
    eraser.join()
    assert world.dumped(MARKER) == []


def test_the_erasure_itself_keeps_nothing_of_whom_it_was_about(world: World) -> None:
    world.put("a")
    world.record("a", participantId=MARKER)
    token = {"runId": "a", "participantId": MARKER, "ttlSeconds": 60}
    assert world.admin.post("/v1/participant-tokens", token).status_code == 201
    asked = world.admin.post("/v1/erasures", {"participantId": MARKER}, headers={"Idempotency-Key": "e"})
    again = world.admin.post("/v1/erasures", {"participantId": MARKER}, headers={"Idempotency-Key": "e"})
    assert (again.data, again.headers["X-Idempotent-Replay"]) == (asked.data, "true")
    work(world.engine, world.tenant, asked.json["id"])
    assert world.dumped(MARKER) == []
    missing = world.admin.post("/v1/erasures", {"participantId": MARKER})
    assert (missing.status_code, missing.json["error"]["code"]) == (404, "participant-not-found")


def test_of_a_participant_who_said_nothing_the_tokens_go(world: World) -> None:
    world.put("a")
    token = {"runId": "a", "participantId": MARKER, "ttlSeconds": 60}
    assert world.admin.post("/v1/participant-tokens", token, headers={"Idempotency-Key": "t"}).status_code == 201
    assert world.dumped(MARKER)
    assert set(world.erase(participantId=MARKER)["counts"].values()) == {0}
    assert world.dumped(MARKER) == []


def test_what_comes_after_it_was_asked_for_stays(world: World) -> None:
    world.put("a", conversationId="talk")
    world.record("a", participantId="ann", why="old")
    by_person = world.admin.post("/v1/erasures", {"participantId": "ann"}).json["id"]
    by_talk = world.admin.post("/v1/erasures", {"conversationId": "talk"}).json["id"]
    world.put("b", conversationId="talk", input="new")
    newer = world.record("b", participantId="ann", why="new")
    work(world.engine, world.tenant, by_person)
    work(world.engine, world.tenant, by_talk)
    assert world.get(newer)["why"] == "new"
    assert world.get(newer)["run"]["input"] == "new"
    assert world.admin.get("/v1/runs/a").json["input"] is None


def broken_off(world: World, erasure: str) -> None:
    """A step whose worker is killed before the end."""

    def killed() -> None:
        with transaction(world.engine) as tx:
            erase.step(tx, world.tenant, erasure)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        killed()


def test_it_goes_on_where_it_broke_off(world: World) -> None:
    for n in range(4):
        world.put(f"turn-{n}", conversationId="talk", messages=[MARKER], key=f"k{n}")
    world.put("flow", subject=FLOW)
    world.put(
        "turn-4", conversationId="talk", parentRunId="flow", calls=[{"toolId": MARKER, "arguments": 1, "result": 1}]
    )
    world.record("flow")
    world.capture("flow")
    erasure = world.admin.post("/v1/erasures", {"conversationId": "talk"}).json["id"]
    for _ in range(20):
        work(world.engine, world.tenant, erasure, steps=1)
        broken_off(world, erasure)
    shown = world.admin.get(f"/v1/erasures/{erasure}").json
    assert shown["status"] == "done"
    assert shown["counts"] == {"runs": 5, "copies": 0, "contexts": 1, "corrections": 0, "answers": 4}
    assert world.dumped(MARKER) == []


def test_erasing_twice_is_erasing_once(world: World) -> None:
    world.put("a", input=MARKER)
    world.record("a")
    assert world.erase(runId="a")["counts"]["runs"] == 1
    at = world.admin.get("/v1/runs/a").json["erasedAt"]
    assert set(world.erase(runId="a")["counts"].values()) == {0}
    assert world.admin.get("/v1/runs/a").json["erasedAt"] == at


def test_a_late_capture_brings_nothing_back(world: World) -> None:
    world.put("marked", **a_marked_run())
    world.put("later", conversationId="talk", messages=["x"])
    world.record("marked")
    correction = world.record("later")
    world.erase(runId="marked")
    with transaction(world.engine) as tx:
        assert not capture_context(tx, world.tenant, "marked")
    world.capture("later")
    assert world.get(correction)["run"]["context"] == {"history": []}
    assert world.dumped(MARKER) == []


def test_a_capture_under_way_is_waited_for(world: World) -> None:
    world.put("marked", **a_marked_run())
    world.put("later", conversationId="talk")
    correction = world.record("later")
    erasure = world.admin.post("/v1/erasures", {"runId": "marked"}).json["id"]
    eraser = threading.Thread(target=work, args=(world.engine, world.tenant, erasure))
    with transaction(world.engine) as tx:
        assert capture_context(tx, world.tenant, "later")
        eraser.start()
        eraser.join(0.3)
        assert eraser.is_alive()
    eraser.join()
    assert world.get(correction)["run"]["context"] == {"history": []}
    assert world.dumped(MARKER) == []


def test_what_wasnt_ended_is_erased_too(world: World) -> None:
    body = {"status": "running", "input": MARKER, "output": None}
    world.put("a", **body)
    world.erase(runId="a")
    answer = world.admin.put("/v1/runs/a", {"projectId": "p", "subject": SUBJECT} | body)
    assert (answer.status_code, answer.json["error"]["code"]) == (410, "run-erased")
    assert world.dumped(MARKER) == []


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({}, 400, "bad-input"),
        ({"runId": "a", "participantId": "b"}, 400, "bad-input"),
        ({"runId": None}, 400, "bad-input"),
        ({"participantId": ""}, 400, "bad-input"),
        ({"userId": "a"}, 400, "unknown-field"),
        ({"runId": "nope"}, 404, "run-not-found"),
        ({"runId": "\u0001/"}, 404, "run-not-found"),
        ({"conversationId": "nope"}, 404, "conversation-not-found"),
        ({"participantId": "nope"}, 404, "participant-not-found"),
    ],
)
def test_what_cant_be_erased(world: World, body: dict[str, Any], status: int, code: str) -> None:
    answer = world.admin.post("/v1/erasures", body)
    assert (answer.status_code, answer.json["error"]["code"]) == (status, code), json.dumps(answer.json)

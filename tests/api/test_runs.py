from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from sqlalchemy import Engine

from app.domain.model import Grant
from app.store.engine import reading
from app.transaction import transaction
from tests.client import Client
from tests.conftest import ClientOf
from tests.factories import a_project

Change = Callable[..., dict[str, Any]]


def a_body(**over: Any) -> dict[str, Any]:
    """The smallest body of a completed run in project ``p``, with ``over``; ``...`` leaves a field out."""
    body: dict[str, Any] = {
        "projectId": "p",
        "subject": {"kind": "agent", "id": "support", "version": "1.0.0"},
        "status": "completed",
        "input": {"message": "hello"},
        "output": {"answer": "hi"},
    } | over
    return {name: value for name, value in body.items() if value is not ...}


@pytest.fixture(autouse=True)
def project(engine: Engine, tenant: str) -> str:
    return a_project(engine, tenant)


def code_of(answer: Any) -> tuple[int, str]:
    return answer.status_code, answer.json["error"]["code"]


def test_a_run_is_made_moved_on_and_ended(admin: Client) -> None:
    made = admin.put("/v1/runs/r1", a_body(status="running", output=...))
    assert made.status_code == 201, made.text
    assert made.json["status"] == "running"
    assert "output" not in made.json
    moved = admin.put("/v1/runs/r1", a_body())
    assert (moved.status_code, moved.json["output"]) == (200, {"answer": "hi"})
    assert admin.get("/v1/runs/r1").json == moved.json
    assert moved.json["createdAt"] == made.json["createdAt"]


def test_every_field_comes_back(admin: Client) -> None:
    body = a_body(
        conversationId="c 1",
        parentRunId="p:1",
        nodeId="ask",
        scope="loop[0]",
        replayOf="r.0",
        segments=[{"key": "company", "value": "Ärzte"}],
        messages=[{"role": "user", "content": "hello"}],
        retrieved={"documents": []},
        recalled=[],
        sessionApproval={"approved": False, "rationale": "no"},
        calls=[
            {"nodeId": "n", "scope": "s", "toolId": "t", "arguments": {}, "result": None, "fromEvent": True},
            {"toolId": "t", "arguments": None, "result": 1, "env": {"A": "b"}},
        ],
        startedAt="2026-01-31T12:00:00.1234+01:00",
        finishedAt="2026-01-31T12:00:01Z",
    )
    assert admin.put("/v1/runs/r", body).status_code == 201
    shown = admin.get("/v1/runs/r").json
    expected = body | {"startedAt": "2026-01-31T11:00:00.123Z", "finishedAt": "2026-01-31T12:00:01.000Z"}
    assert {name: shown[name] for name in expected} == expected
    assert set(shown) - set(expected) == {"id", "tenantId", "createdAt", "updatedAt"}
    assert (shown["id"], shown["tenantId"]) == ("r", admin.caller.tenant_id)


PAYLOAD = (
    '{ "b" : 1.0, "a": [1e3, 123456789012345678901234567890, -0, 1E+400], "nul": "\\u0000", "half": "\\ud83d",'
    ' "b": "\\/ é \\u00e9", "": {"__proto__": [ ]}, "deep": ' + "[" * 120 + "]" * 120 + "}"
)
COMPACT = (
    '{"b":1.0,"a":[1e3,123456789012345678901234567890,-0,1E+400],"nul":"\\u0000","half":"\\ud83d",'
    '"b":"\\/ é \\u00e9","":{"__proto__":[]},"deep":' + "[" * 120 + "]" * 120 + "}"
)


def test_payloads_come_back_to_the_letter(admin: Client) -> None:
    raw = (
        '{"projectId":"p","subject":{"kind":"agent","id":"a","version":"1"},"status":"completed",'
        f'"input":{PAYLOAD},"output":{PAYLOAD},"messages":[{PAYLOAD}],"retrieved":{PAYLOAD},"recalled":{PAYLOAD},'
        f'"calls":[{{"toolId" : "t","arguments": {PAYLOAD},"result":{PAYLOAD}}}]}}'
    )
    made = admin.put("/v1/runs/r", data=raw.encode())
    assert made.status_code == 201, made.text
    text = admin.get("/v1/runs/r").get_data(as_text=True)
    for part in (
        f'"input":{COMPACT}',
        f'"output":{COMPACT}',
        f'"messages":[{COMPACT}]',
        f'"retrieved":{COMPACT}',
        f'"recalled":{COMPACT}',
        f'"calls":[{{"toolId":"t","arguments":{COMPACT},"result":{COMPACT}}}]',
    ):
        assert part in text
    again = admin.put("/v1/runs/r", data=raw.replace(" :", ":").replace('": ', '":\n\t').encode())
    assert again.status_code == 200, again.text


def test_the_same_content_again_changes_nothing(admin: Client) -> None:
    first = admin.put("/v1/runs/r", a_body(status="running", output=None, startedAt="2026-01-01T00:00:00Z"))
    again = admin.put("/v1/runs/r", a_body(status="running", output=None, startedAt="2026-01-01T00:00:00Z"))
    assert (again.status_code, again.json) == (200, first.json)


@pytest.mark.parametrize(
    "over",
    [{"output": {"answer": "ho"}}, {"startedAt": "2026-01-01T00:00:00Z"}, {"status": "failed"}, {"messages": []}],
)
def test_an_ended_run_keeps_its_content(admin: Client, over: dict[str, Any]) -> None:
    admin.put("/v1/runs/r", a_body())
    assert code_of(admin.put("/v1/runs/r", a_body(**over))) == (409, "run-already-terminal")
    assert admin.get("/v1/runs/r").json["output"] == {"answer": "hi"}


def test_a_put_replaces_the_whole_content(admin: Client) -> None:
    admin.put("/v1/runs/r", a_body(status="running", output=..., conversationId="c", messages=[1]))
    shown = admin.put("/v1/runs/r", a_body(status="suspended", output=..., input=None)).json
    assert shown["input"] is None
    assert {"conversationId", "messages", "output"}.isdisjoint(shown)


def test_a_run_stays_in_its_project(admin: Client, engine: Engine, tenant: str) -> None:
    a_project(engine, tenant, "q")
    admin.put("/v1/runs/r", a_body())
    assert code_of(admin.put("/v1/runs/r", a_body(projectId="q"))) == (409, "run-project-mismatch")


def test_an_erased_run_takes_no_content(admin: Client, engine: Engine, tenant: str) -> None:
    admin.put("/v1/runs/r", a_body())
    with transaction(engine) as tx:
        tx.run("UPDATE runs SET erased_at = now(), input = NULL, output = NULL WHERE tenant_id = %s", (tenant,))
    for body in (a_body(), a_body(output=1)):
        assert code_of(admin.put("/v1/runs/r", body)) == (410, "run-erased")
    shown = admin.get("/v1/runs/r").json
    assert (shown["input"], shown["output"]) == (None, None)
    assert "erasedAt" in shown
    assert "erasedAt" in admin.get("/v1/runs").json["data"][0]


REFUSED = [
    ({"id": "r"}, "unknown-field", "/id"),
    ({"calls": [{"toolId": "t", "arguments": 1, "result": 1, "x": 1}]}, "unknown-field", "/calls/0/x"),
    ({"subject": {"kind": "agent", "id": "a", "version": "1", "x": 1}}, "unknown-field", "/subject/x"),
    ({"projectId": ...}, "bad-input", "/projectId"),
    ({"projectId": None}, "bad-input", "/projectId"),
    ({"input": ...}, "bad-input", "/input"),
    ({"output": ...}, "bad-input", "/output"),
    ({"output": None}, "bad-input", "/output"),
    ({"status": "done"}, "bad-input", "/status"),
    ({"subject": {"kind": "bot", "id": "a", "version": "1"}}, "bad-input", "/subject/kind"),
    ({"subject": {"kind": "agent", "id": "", "version": "1"}}, "bad-input", "/subject/id"),
    ({"subject": {"kind": "agent", "id": "a", "version": "1" * 257}}, "bad-input", "/subject/version"),
    ({"subject": {"kind": "agent", "id": "a"}}, "bad-input", "/subject/version"),
    ({"subject": {"kind": "agent", "id": "a\x00", "version": "1"}}, "bad-input", "/subject/id"),
    ({"conversationId": ""}, "bad-input", "/conversationId"),
    ({"conversationId": "\ud800"}, "bad-input", "/conversationId"),
    ({"conversationId": None}, "bad-input", "/conversationId"),
    ({"parentRunId": "a/b"}, "bad-input", "/parentRunId"),
    ({"replayOf": "a" * 129}, "bad-input", "/replayOf"),
    ({"nodeId": 1}, "bad-input", "/nodeId"),
    ({"segments": [{"key": "Company", "value": "x"}]}, "bad-input", "/segments/0/key"),
    ({"segments": [{"key": "a\n", "value": "x"}]}, "bad-input", "/segments/0/key"),
    ({"segments": [{"key": "a", "value": ""}]}, "bad-input", "/segments/0/value"),
    ({"segments": {}}, "bad-input", "/segments"),
    ({"messages": {}}, "bad-input", "/messages"),
    ({"messages": None}, "bad-input", "/messages"),
    ({"retrieved": None}, "bad-input", "/retrieved"),
    ({"sessionApproval": {"rationale": "x"}}, "bad-input", "/sessionApproval/approved"),
    ({"sessionApproval": {"approved": 1}}, "bad-input", "/sessionApproval/approved"),
    ({"calls": {}}, "bad-input", "/calls"),
    ({"calls": [1]}, "bad-input", "/calls/0"),
    ({"calls": [{"arguments": 1, "result": 1}]}, "bad-input", "/calls/0/toolId"),
    ({"calls": [{"toolId": "t" * 201, "arguments": 1, "result": 1}]}, "bad-input", "/calls/0/toolId"),
    ({"calls": [{"toolId": "t", "result": 1}]}, "bad-input", "/calls/0/arguments"),
    ({"calls": [{"toolId": "t", "arguments": 1}]}, "bad-input", "/calls/0/result"),
    ({"calls": [{"toolId": "t", "arguments": 1, "result": 1, "fromEvent": "yes"}]}, "bad-input", "/calls/0/fromEvent"),
    ({"calls": [{"toolId": "t", "arguments": 1, "result": 1, "env": {"A": 1}}]}, "bad-input", "/calls/0/env/A"),
    ({"calls": [{"toolId": "t", "arguments": 1, "result": 1, "env": []}]}, "bad-input", "/calls/0/env"),
    ({"startedAt": "2026-01-01"}, "bad-input", "/startedAt"),
    ({"finishedAt": "2026-02-30T00:00:00Z"}, "bad-input", "/finishedAt"),
]


@pytest.mark.parametrize(("over", "code", "path"), REFUSED, ids=lambda value: str(value)[:60])
def test_what_is_malformed_is_refused_by_its_path(admin: Client, over: dict[str, Any], code: str, path: str) -> None:
    answer = admin.put("/v1/runs/r", a_body(**over))
    assert code_of(answer) == (400, code), answer.text
    assert path in [issue["path"] for issue in answer.json["error"]["details"]["issues"]]
    assert admin.get("/v1/runs/r").status_code == 404


@pytest.mark.parametrize("raw", [b"", b"[]", b"1", b'{"projectId"', b"\xff{}", b'{"input":NaN}', b'{"input":"\x01"}'])
def test_what_is_no_json_object_is_refused(admin: Client, raw: bytes) -> None:
    assert code_of(admin.put("/v1/runs/r", data=raw)) == (400, "bad-input")


def test_depth_is_bounded(admin: Client) -> None:
    fits = json.loads("[" * 127 + "]" * 127)
    assert admin.put("/v1/runs/r", a_body(output=fits)).status_code == 201
    answer = admin.put("/v1/runs/r2", a_body(output=[fits]))
    assert code_of(answer) == (400, "bad-input")
    assert answer.json["error"]["details"]["maxDepth"] == 128


@pytest.mark.parametrize("run_id", ["a%20b", "%C3%A9", "a" * 129, "a%00", "a%0A"])
def test_a_malformed_run_id_is_refused_where_it_would_be_made(admin: Client, run_id: str) -> None:
    assert code_of(admin.put(f"/v1/runs/{run_id}", a_body())) == (400, "bad-input")
    assert code_of(admin.get(f"/v1/runs/{run_id}")) == (404, "run-not-found")


def test_projects_that_are_not_there_or_not_the_callers(admin: Client, client_of: ClientOf) -> None:
    for name in ("nope", "a b"):
        assert code_of(admin.put("/v1/runs/r", a_body(projectId=name))) == (404, "project-not-found")
    stranger, reader = client_of(), client_of(grants=[Grant("project", "read", "p")])
    writer = client_of(grants=[Grant("project", "write", "p")])
    assert code_of(stranger.put("/v1/runs/r", a_body())) == (404, "project-not-found")
    assert code_of(reader.put("/v1/runs/r", a_body())) == (403, "permission-denied")
    assert writer.put("/v1/runs/r", a_body()).status_code == 201
    assert reader.get("/v1/runs/r").status_code == 200
    assert code_of(stranger.get("/v1/runs/r")) == (404, "run-not-found")
    elsewhere = client_of(role="admin", tenant_id=f"{admin.caller.tenant_id}-other")
    assert code_of(elsewhere.get("/v1/runs/r")) == (404, "run-not-found")
    assert code_of(elsewhere.put("/v1/runs/r", a_body())) == (404, "project-not-found")


@pytest.mark.parametrize("differ", [False, True])
def test_two_first_puts_at_once(admin: Client, differ: bool) -> None:
    bodies = [a_body(output=n if differ else 0) for n in range(8)]
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda body: admin.put("/v1/runs/r", body), bodies))
    statuses = sorted(answer.status_code for answer in answers)
    assert statuses == sorted([201] + [409 if differ else 200] * 7)


def test_a_run_makes_its_subject_known(admin: Client, engine: Engine, tenant: str) -> None:
    with transaction(engine) as tx:
        tx.run(
            "INSERT INTO subjects (tenant_id, kind, id, latest_version, latest_at)"
            " VALUES (%s, 'agent', 'known', '2', now())",
            (tenant,),
        )
    for subject_id in ("known", "new"):
        for run in ("1", "2"):
            body = a_body(subject={"kind": "agent", "id": subject_id, "version": "1"})
            assert admin.put(f"/v1/runs/{subject_id}-{run}", body).status_code == 201
    with reading(engine) as db:
        rows = db.rows(
            "SELECT subject_id, version, how, at IS NOT NULL, pinned FROM running WHERE tenant_id = %s ORDER BY 1",
            (tenant,),
        )
    assert rows == [("known", "2", "latest", True, False), ("new", None, None, False, False)]


def listed(client: Client, query: str = "") -> list[str]:
    answer = client.get(f"/v1/runs?{query}")
    assert answer.status_code == 200, answer.text
    return [row["id"] for row in answer.json["data"]]


def test_a_list_leaves_payloads_out(admin: Client) -> None:
    body = a_body(messages=[1], retrieved=1, recalled=1, calls=[], segments=[], sessionApproval={"approved": True})
    whole = admin.put("/v1/runs/r", body).json
    (row,) = admin.get("/v1/runs").json["data"]
    left_out = {"input", "output", "messages", "retrieved", "recalled", "calls"}
    assert row == {name: value for name, value in whole.items() if name not in left_out}


def test_each_filter_narrows(admin: Client, engine: Engine, tenant: str) -> None:
    a_project(engine, tenant, "q")
    flow = {"kind": "flow", "id": "support", "version": "2"}
    admin.put("/v1/runs/one", a_body())
    admin.put("/v1/runs/two", a_body(projectId="q", subject=flow, conversationId="c"))
    admin.put("/v1/runs/three", a_body(status="failed", output=...))
    admin.put("/v1/runs/four", a_body(status="running", output=..., conversationId="c"))
    for run_id in ("one", "two"):
        assert admin.post("/v1/corrections", {"runId": run_id, "answer": "right"}).status_code == 201
    with transaction(engine) as tx:
        tx.run(
            "UPDATE corrections SET unregistered_at = now() WHERE tenant_id = %s AND run_id = 'two'",
            (tenant,),
        )
    expected = {
        "": ["four", "three", "two", "one"],
        "projectId=q": ["two"],
        "projectId=nope": [],
        "subjectKind=flow": ["two"],
        "subjectId=support": ["four", "three", "two", "one"],
        "subjectKind=agent&subjectId=support&version=1.0.0": ["four", "three", "one"],
        "version=2": ["two"],
        "status=failed": ["three"],
        "status=failed,running": ["four", "three"],
        "status=failed&status=running": ["four", "three"],
        "conversationId=c": ["four", "two"],
        "conversationId=": ["four", "three", "two", "one"],
        "corrected=true": ["one"],
        "corrected=false": ["four", "three", "two"],
        "corrected=true&projectId=q": [],
    }
    assert {query: listed(admin, query) for query in expected} == expected


@pytest.mark.parametrize(
    "query",
    ["nope=1", "status=done", "corrected=yes", "corrected=1", "subjectKind=bot", "limit=0", "limit=101", "limit=x",
     "cursor=x", "projectId=a&projectId=b", "subjectId=%00"],
)  # fmt: skip
def test_a_malformed_query_is_named(admin: Client, query: str) -> None:
    answer = admin.get(f"/v1/runs?{query}")
    assert code_of(answer) == (400, "bad-input")
    name = query.split("=", maxsplit=1)[0]
    assert [issue["path"] for issue in answer.json["error"]["details"]["issues"]] == [f"/query/{name}"]


def test_pages_are_full_of_what_may_be_read(admin: Client, client_of: ClientOf, engine: Engine, tenant: str) -> None:
    a_project(engine, tenant, "q", "o")
    a_project(engine, tenant, "z")
    for number in range(12):
        admin.put(f"/v1/runs/r{number:02}", a_body(projectId="pqz"[number % 3]))
    member = client_of(grants=[Grant("org", "read", "o"), Grant("project", "read", "p")])
    mine = [f"r{number:02}" for number in reversed(range(12)) if number % 3 != 2]
    seen, cursor = [], ""
    while True:
        answer = member.get(f"/v1/runs?limit=3{cursor}").json
        seen.append([row["id"] for row in answer["data"]])
        if not answer["hasMore"]:
            break
        admin.put(f"/v1/runs/later{len(seen)}", a_body())
        cursor = f"&cursor={answer['nextCursor']}"
    assert seen == [mine[0:3], mine[3:6], mine[6:8]]
    assert listed(member, "projectId=z") == []
    assert listed(member, "projectId=q") == [run_id for run_id in mine if int(run_id[1:]) % 3 == 1]
    assert code_of(admin.get(f"/v1/runs?limit=3{cursor}")) == (400, "bad-input")
    assert listed(client_of()) == []


def test_a_run_of_ten_mebibytes(admin: Client) -> None:
    text = "ä\\u0000" * 600_000
    head = (
        '{"projectId":"p","subject":{"kind":"agent","id":"a","version":"1"},"status":"completed","input":1,"output":"'
    )
    raw = f'{head}{text}"}}'.encode()
    raw += b" " * (10 * 1024 * 1024 - len(raw))
    assert admin.put("/v1/runs/r", data=raw).status_code == 201
    assert f'"output":"{text}"' in admin.get("/v1/runs/r").text
    answer = admin.put("/v1/runs/r", data=raw + b" ")
    assert code_of(answer) == (413, "request-too-large")
    assert answer.json["error"]["details"] == {"maxBytes": 10 * 1024 * 1024}


def test_a_kept_answer_is_replayed(admin: Client) -> None:
    headers = {"Idempotency-Key": "k"}
    first = admin.put("/v1/runs/r", a_body(status="running", output=...), headers=headers)
    admin.put("/v1/runs/r", a_body())
    again = admin.put("/v1/runs/r", a_body(status="running", output=...), headers=headers)
    assert (again.status_code, again.get_data()) == (201, first.get_data())


def test_moves_at_once_leave_one_of_them(admin: Client) -> None:
    admin.put("/v1/runs/r", a_body(status="running", output=...))
    bodies = [a_body(status="running", output=n, conversationId=f"c{n}") for n in range(8)]
    with ThreadPoolExecutor(8) as pool:
        statuses = {answer.status_code for answer in pool.map(lambda body: admin.put("/v1/runs/r", body), bodies)}
    assert statuses == {200}
    shown = admin.get("/v1/runs/r").json
    assert shown["conversationId"] == f"c{shown['output']}"

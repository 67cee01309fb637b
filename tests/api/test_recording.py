"""POST /v1/corrections: what is taken, in which order it is refused, how it is sorted, what follows."""

from __future__ import annotations

import json
from typing import Any

import pytest
from sqlalchemy import Engine

from app.domain.model import Grant
from app.store.engine import reading
from app.transaction import transaction
from tests.client import Client
from tests.conftest import ClientOf
from tests.factories import a_run

RIGHT = {"decisions": "right"}
WRONG_CALL = {"decisions": "wrong", "shouldCall": [{"tool": "refund", "args": {"order": 7}}]}
WRONG_ANSWER = {"answer": "wrong", "shouldSay": "No."}


def recorded(client: Client, run: str, **said: Any) -> dict[str, Any]:
    answer = client.post("/v1/corrections", {"runId": run, **said})
    assert answer.status_code == 201, answer.text
    body: dict[str, Any] = answer.json
    return body


def refused(client: Client, run: str, **said: Any) -> tuple[int, str]:
    answer = client.post("/v1/corrections", {"runId": run, **said})
    return answer.status_code, answer.json["error"]["code"]


def kept_jobs(engine: Engine, tenant: str) -> list[tuple[str, dict[str, Any]]]:
    with reading(engine) as db:
        rows = db.rows("SELECT job, ids FROM outbox WHERE tenant_id = %s ORDER BY id", (tenant,))
    return [(name.removeprefix("corrigenda."), json.loads(ids)) for name, ids in rows]


def test_a_recording_shows_what_was_said_and_what_was_made_of_it(admin: Client, engine: Engine, tenant: str) -> None:
    run = a_run(engine, tenant)
    answer = admin.post("/v1/corrections", {"runId": run, **WRONG_CALL, "mustNotCall": ["delete"], "why": "policy"})
    body = answer.json
    made = body["createdAt"]
    assert body == {
        "id": body["id"],
        "tenantId": tenant,
        "projectId": "p",
        "runId": run,
        "subject": {"kind": "agent", "id": "support", "version": "1.0.0"},
        **WRONG_CALL,
        "mustNotCall": ["delete"],
        "why": "policy",
        "madeBy": {"kind": "user", "id": "admin"},
        "status": "with-owner",
        "sortedTo": "owner",
        "sorted": {"by": {"kind": "rule"}, "at": made},
        "createdAt": made,
        "updatedAt": made,
    }
    fetched = admin.get(f"/v1/corrections/{body['id']}")
    assert fetched.json == body | {
        "run": {
            "runId": run,
            "subject": body["subject"],
            "input": {"message": "hello"},
            "output": {"answer": "hi"},
            "segments": [],
            "capturedAt": made,
        }
    }
    assert admin.get("/v1/corrections").json == {"data": [body], "hasMore": False}


@pytest.mark.parametrize(
    ("said", "status", "sorted_to", "fixed_how"),
    [
        ({**WRONG_CALL, "participantId": "u"}, "open", None, None),
        ({**RIGHT, "participantId": "u"}, "open", None, None),
        (WRONG_CALL, "with-owner", "owner", None),
        ({**WRONG_CALL, **WRONG_ANSWER}, "with-owner", "owner", None),
        (WRONG_ANSWER, "open", "improve", None),
        ({"decisions": "right", "items": [{"key": "k", "verdict": "wrong"}]}, "open", "improve", None),
        (RIGHT, "fixed", None, "recorded-right"),
        ({"answer": "right", "items": [{"key": "k", "verdict": "right"}]}, "fixed", None, "recorded-right"),
    ],
)
def test_the_first_rule_that_fits_sorts_it(
    admin: Client,
    engine: Engine,
    tenant: str,
    said: dict[str, Any],
    status: str,
    sorted_to: str | None,
    fixed_how: str | None,
) -> None:
    body = recorded(admin, a_run(engine, tenant), **said)
    made = body["createdAt"]
    assert (body["status"], body.get("sortedTo")) == (status, sorted_to)
    assert body.get("sorted") == ({"by": {"kind": "rule"}, "at": made} if sorted_to else None)
    assert body.get("fixedIn") == ({"how": fixed_how, "at": made} if fixed_how else None)
    history = admin.get(f"/v1/corrections/{body['id']}/history").json["data"]
    assert history[0] == {"at": made, "kind": "recorded", "by": {"kind": "user", "id": "admin"}, "to": status}
    expected: list[dict[str, Any]] = []
    if sorted_to:
        expected = [{"at": made, "kind": "sorted", "by": {"kind": "rule"}, "to": sorted_to}]
    if fixed_how:
        expected = [{"at": made, "kind": "fixed", "how": fixed_how}]
    assert history[1:] == expected


def test_jobs_follow_from_what_happened(admin: Client, engine: Engine, tenant: str) -> None:
    run = a_run(engine, tenant)
    first = recorded(admin, run, **WRONG_CALL)["id"]
    second = recorded(admin, run, **WRONG_ANSWER)["id"]
    recorded(admin, run, **RIGHT)
    assert kept_jobs(engine, tenant) == [
        ("capture", {"runId": run}),
        ("route", {"correctionId": first}),
        ("notify", {"event": "correction.with-owner", "correctionId": first, "key": "1"}),
        ("settle", {"correctionId": first}),
        ("route", {"correctionId": second}),
        ("settle", {"correctionId": second}),
    ]


def test_a_second_one_by_the_same_caller_ends_the_first(
    admin: Client, client_of: ClientOf, engine: Engine, tenant: str
) -> None:
    run = a_run(engine, tenant)
    first = recorded(admin, run, **WRONG_CALL)
    others = [
        recorded(admin, run, **RIGHT, participantId="u"),
        recorded(client_of(role="admin", user="ben"), run, **RIGHT),
    ]
    second = recorded(admin, run, **RIGHT)
    old = admin.get(f"/v1/corrections/{first['id']}").json
    assert old.pop("run")["capturedAt"] == first["createdAt"]
    assert old == first | {
        "updatedAt": second["createdAt"],
        "unregisteredAt": second["createdAt"],
        "supersededBy": second["id"],
    }
    assert admin.get("/v1/corrections").json["data"] == [second, *reversed(others)]
    history = admin.get(f"/v1/corrections/{first['id']}/history").json["data"]
    assert history[-1] == {
        "at": second["createdAt"],
        "kind": "superseded",
        "by": {"kind": "user", "id": "admin"},
        "to": second["id"],
    }


def test_permission_comes_before_the_runs_state(
    client_of: ClientOf, engine: Engine, tenant: str, admin: Client
) -> None:
    running = a_run(engine, tenant, status="running", output=None)
    for client in (client_of(), client_of(grants=[Grant("project", "read", "p")])):
        assert refused(client, running, **RIGHT) == (403, "permission-denied")
    writer = client_of(grants=[Grant("project", "write", "p")])
    assert refused(writer, running, **RIGHT) == (409, "run-not-finished")
    assert refused(writer, a_run(engine, tenant, status="failed"), **RIGHT) == (409, "run-not-finished")
    assert refused(admin, "nope", **RIGHT) == (404, "run-not-found")
    assert refused(client_of(role="admin", tenant_id=f"{tenant}-2"), running, **RIGHT) == (404, "run-not-found")


@pytest.fixture
def run(engine: Engine, tenant: str) -> str:
    return a_run(engine, tenant, output={"answer": "hi", "matches": [{"id": 1}, None]})


@pytest.mark.parametrize(
    ("said", "path"),
    [
        ({}, ""),
        ({"decisions": "maybe"}, "/decisions"),
        ({"decisions": None}, "/decisions"),
        ({"decisions": "wrong"}, "/decisions"),
        ({"answer": "wrong"}, "/answer"),
        ({"answer": "right", "shouldSay": "x"}, "/shouldSay"),
        ({"decisions": "right", "mustNotCall": ["x"]}, "/mustNotCall"),
        ({"decisions": "wrong", "shouldCall": [{}]}, "/shouldCall/0/tool"),
        ({"decisions": "wrong", "shouldCall": [{"tool": ""}]}, "/shouldCall/0/tool"),
        ({"decisions": "wrong", "shouldCall": [{"tool": "x" * 201}]}, "/shouldCall/0/tool"),
        ({"decisions": "wrong", "shouldCall": [{"tool": "x"}] * 51}, "/shouldCall"),
        ({"decisions": "wrong", "shouldCall": {"tool": "x"}}, "/shouldCall"),
        ({"decisions": "wrong", "shouldCall": [{"tool": "x", "args": []}]}, "/shouldCall/0/args"),
        ({"decisions": "wrong", "shouldCall": [{"tool": "x", "args": None}]}, "/shouldCall/0/args"),
        ({"decisions": "wrong", "shouldCall": [{"tool": "x", "args": {str(i): i for i in range(101)}}]},
         "/shouldCall/0/args"),
        ({"decisions": "wrong", "shouldCall": [{"tool": "x"}], "mustNotCall": ["y", "x"]}, "/mustNotCall/1"),
        ({"decisions": "wrong", "mustNotCall": ["x"] * 51}, "/mustNotCall"),
        ({"decisions": "wrong", "mustNotCall": [""]}, "/mustNotCall/0"),
        ({"decisions": "wrong", "mustNotCall": ["x" * 201]}, "/mustNotCall/0"),
        ({"answer": "wrong", "shouldSay": "x" * 4001}, "/shouldSay"),
        ({"answer": "right", "why": "x" * 4001}, "/why"),
        ({"items": [{"key": "k", "verdict": "right"}] * 101}, "/items"),
        ({"items": [{"key": "k", "verdict": "right"}] * 2}, "/items/1/key"),
        ({"items": [{"key": "", "verdict": "right"}]}, "/items/0/key"),
        ({"items": [{"key": "k" * 201, "verdict": "right"}]}, "/items/0/key"),
        ({"items": [{"key": "k"}]}, "/items/0/verdict"),
        ({"items": [{"key": "k", "verdict": "right", "rank": -1}]}, "/items/0/rank"),
        ({"items": [{"key": "k", "verdict": "right", "rank": 1.5}]}, "/items/0/rank"),
        ({"items": [{"key": "k", "verdict": "right", "rank": True}]}, "/items/0/rank"),
        ({"items": [{"key": "k", "verdict": "right", "rank": "1"}]}, "/items/0/rank"),
        ({"items": [{"key": "k", "verdict": "right", "pointer": "matches"}]}, "/items/0/pointer"),
        ({"items": [{"key": "k", "verdict": "right", "pointer": "/a~2"}]}, "/items/0/pointer"),
        ({"items": [{"key": "k", "verdict": "right", "pointer": "/" + "x" * 500}]}, "/items/0/pointer"),
        ({**RIGHT, "participantId": ""}, "/participantId"),
        ({**RIGHT, "correctorGroupId": ""}, "/correctorGroupId"),
        ({**RIGHT, "runId": 7}, "/runId"),
        ({**RIGHT, "runId": ""}, "/runId"),
        ({**RIGHT, "why": "a\x00b"}, "/why"),
        ({**RIGHT, "participantId": "\ud800"}, "/participantId"),
    ],
)  # fmt: skip
def test_a_faulty_body_is_refused_and_the_fault_is_named(
    admin: Client, run: str, said: dict[str, Any], path: str
) -> None:
    answer = admin.post("/v1/corrections", {"runId": run, **said})
    assert (answer.status_code, answer.json["error"]["code"]) == (400, "bad-input")
    assert path in [issue["path"] for issue in answer.json["error"]["details"]["issues"]]
    assert admin.get("/v1/corrections").json["data"] == []


@pytest.mark.parametrize(
    "said",
    [
        {"decisions": "wrong", "shouldCall": [{"tool": "é" * 200}] * 50, "mustNotCall": ["y" * 200] * 50},
        {"answer": "wrong", "shouldSay": "😀" * 4000, "why": "\n" * 4000},
        {"items": [{"key": f"{i}" * 60, "verdict": "right", "rank": i} for i in range(100)]},
        {"decisions": "wrong", "shouldCall": [{"tool": "x", "args": {str(i): i for i in range(100)}}]},
        {**RIGHT, "participantId": "p" * 100_000},
    ],
)
def test_limits_are_inclusive_and_count_code_points(admin: Client, run: str, said: dict[str, Any]) -> None:
    body = recorded(admin, run, **said)
    assert body == admin.get("/v1/corrections").json["data"][0]
    for name, value in said.items():
        if name == "shouldCall":
            assert [{"args": {}, **call} for call in value] == body[name]
        elif name != "why":
            assert body[name] == value


@pytest.mark.parametrize(
    "name",
    ["madeBy", "id", "tenantId", "projectId", "subject", "status", "sortedTo", "sorted", "expert", "createdAt",
     "updatedAt", "fixedIn", "link", "statusNote", "supersededBy", "unregisteredAt", "__proto__", "", "a.b"],
)  # fmt: skip
def test_what_the_service_decides_can_not_be_said(admin: Client, run: str, name: str) -> None:
    answer = admin.post("/v1/corrections", {"runId": run, **RIGHT, name: {"kind": "user", "id": "eve"}})
    assert (answer.status_code, answer.json["error"]["code"]) == (400, "unknown-field")
    assert answer.json["error"]["details"]["issues"] == [{"path": f"/{name}", "message": "is not a field here"}]


def test_a_nested_unknown_field_is_named_by_its_pointer(admin: Client, run: str) -> None:
    said = {"decisions": "wrong", "shouldCall": [{"tool": "x", "a/b~": 1}]}
    answer = admin.post("/v1/corrections", {"runId": run, **said})
    assert answer.json["error"]["code"] == "unknown-field"
    assert [issue["path"] for issue in answer.json["error"]["details"]["issues"]] == ["/shouldCall/0/a~1b~0"]


def test_what_says_nothing_is_absent(admin: Client, run: str) -> None:
    said = {"answer": "right", "shouldCall": [], "mustNotCall": [], "items": [], "why": " \n", "shouldSay": ""}
    body = recorded(admin, run, **said)
    assert set(body) & set(said) == {"answer"}


@pytest.mark.parametrize(
    ("sent", "shown"),
    [
        ("{}", "{}"),
        ('{"n": 107505301260286111}', '{"n":107505301260286111}'),
        ('{"n": [18446744073709551617, -123456789012345678901234567890]}',
         '{"n":[18446744073709551617,-123456789012345678901234567890]}'),
        ('{"n": [1.0, 1e3, 1.10, -0.0, 1E-400, 0.1000000000000000055511151231257827]}',
         '{"n":[1.0,1e3,1.10,-0.0,1E-400,0.1000000000000000055511151231257827]}'),
        ('{"a.b": 1, "$ne": {"$where": 2}, "__proto__": {"constructor": 3}, "": 4, "a": null, " ": []}',
         '{"a.b":1,"$ne":{"$where":2},"__proto__":{"constructor":3},"":4,"a":null," ":[]}'),
        ('{"b": 1, "a": "\\u0001\\u00e9\\ud83d\\ude00\\/%s{}"}', '{"b":1,"a":"\\u0001é😀/%s{}"}'),
    ],
)  # fmt: skip
def test_args_keep_every_digit_and_key(admin: Client, run: str, sent: str, shown: str) -> None:
    body = f'{{"runId": "{run}", "decisions": "wrong", "shouldCall": [{{"tool": "t", "args": {sent}}}]}}'
    answer = admin.post("/v1/corrections", data=body.encode())
    assert answer.status_code == 201, answer.text
    expected = f'"shouldCall":[{{"tool":"t","args":{shown}}}]'
    assert expected in answer.text
    assert expected in admin.get("/v1/corrections").text
    assert expected in admin.get(f"/v1/corrections/{answer.json['id']}").text


@pytest.mark.parametrize(
    "args",
    ['{"n": 1e400}', '{"n": [-1e309]}', '{"n": 1e99999999999999999999}', '{"n": NaN}', '{"n": Infinity}',
     '{"a": "\\u0000"}', '{"\\u0000": 1}', '{"a": [{"b": "\\ud800"}]}', '{"x": {"\\udc00": 1}}', '{"n": 01}',
     '{"n": 1' + "0" * 5000 + "}", '{"n": 1' + "0" * 400 + "}"],
)  # fmt: skip
def test_args_that_can_not_be_kept_are_refused(admin: Client, run: str, args: str) -> None:
    body = f'{{"runId": "{run}", "decisions": "wrong", "shouldCall": [{{"tool": "t", "args": {args}}}]}}'
    answer = admin.post("/v1/corrections", data=body.encode())
    assert (answer.status_code, answer.json["error"]["code"]) == (400, "bad-input")


def test_args_are_measured_in_canonical_json(admin: Client, run: str) -> None:
    def sent(text: str) -> int:
        args = f'{{"a" :  {text}}}'
        body = f'{{"runId": "{run}", "decisions": "wrong", "shouldCall": [{{"tool": "t", "args": {args}}}]}}'
        return admin.post("/v1/corrections", data=body.encode()).status_code

    room = 4000 - len('{"a":""}')
    assert sent('"' + "\\u00e9" * room + '"') == 201
    assert sent('"' + "😀" * room + '"') == 201
    assert sent('"' + "\\/" * room + '"') == 201
    assert sent('"' + "x" * (room + 1) + '"') == 400
    assert sent('"' + "\\n" * (room // 2) + '"') == 201
    assert sent('"' + "\\n" * (room // 2 + 1) + '"') == 400
    assert sent('"' + "\\u0001" * (room // 6 + 1) + '"') == 400


@pytest.mark.parametrize(("depth", "status"), [(128, 201), (129, 400)])
def test_a_body_may_nest_so_deep(admin: Client, run: str, depth: int, status: int) -> None:
    # The body, shouldCall, its entry and args are four levels.
    args = '{"a":' + "[" * (depth - 4) + "]" * (depth - 4) + "}"
    body = f'{{"runId": "{run}", "decisions": "wrong", "shouldCall": [{{"tool": "t", "args": {args}}}]}}'
    answer = admin.post("/v1/corrections", data=body.encode())
    assert answer.status_code == status
    if status == 400:
        assert answer.json["error"]["details"] == {"maxDepth": 128}


@pytest.mark.parametrize("rank", ["0", "7", "1.0", "1e2", "123456789012345678901234567890"])
def test_a_rank_is_any_whole_number(admin: Client, run: str, rank: str) -> None:
    body = f'{{"runId": "{run}", "items": [{{"key": "k", "verdict": "right", "rank": {rank}}}]}}'
    answer = admin.post("/v1/corrections", data=body.encode())
    assert answer.status_code == 201, answer.text
    assert answer.json["items"] == [
        {"key": "k", "verdict": "right", "rank": int(float(rank)) if "." in rank or "e" in rank else int(rank)}
    ]


@pytest.mark.parametrize("pointer", ["", "/matches", "/matches/0/id", "/matches/1"])
def test_a_pointer_to_something_is_kept(admin: Client, run: str, pointer: str) -> None:
    item = {"key": "k", "pointer": pointer, "verdict": "right"}
    assert recorded(admin, run, items=[item])["items"] == [item]


def test_pointers_to_nothing_are_all_named(admin: Client, run: str) -> None:
    pointers = ["/matches/0", "/matches/2", "/matches/-", "", "/matches/00", "/answer/0"]
    items = [{"key": str(i), "pointer": pointer, "verdict": "right"} for i, pointer in enumerate(pointers)]
    answer = admin.post("/v1/corrections", {"runId": run, "items": [*items, {"key": "x", "verdict": "right"}]})
    assert (answer.status_code, answer.json["error"]["code"]) == (400, "item-not-found")
    lost = [{"index": index, "pointer": pointers[index]} for index in (1, 2, 4, 5)]
    assert answer.json["error"]["details"] == {"items": lost}


def test_an_output_that_no_parser_likes_can_be_pointed_into(admin: Client, engine: Engine, tenant: str) -> None:
    output = '{"a":[1e999,"\\ud800","\\u0000",1' + "0" * 5000 + '],"a":[7]}'
    run = a_run(engine, tenant, output=output)
    assert refused(admin, run, items=[{"key": "k", "pointer": "/a/1", "verdict": "right"}]) == (400, "item-not-found")
    body = recorded(admin, run, items=[{"key": "k", "pointer": "/a/0", "verdict": "right"}])
    assert f'"output":{output},' in admin.get(f"/v1/corrections/{body['id']}").text


def grouped(admin: Client, **group: Any) -> str:
    answer = admin.post("/v1/corrector-groups", {"name": "g", "weight": 2, "scope": {"kind": "tenant"}, **group})
    assert answer.status_code == 201, answer.text
    return str(answer.json["id"])


def test_an_unrestricted_group_makes_no_expert(admin: Client, run: str) -> None:
    group = grouped(admin)
    body = recorded(admin, run, **RIGHT, correctorGroupId=group, participantId="u")
    assert (body["correctorGroupId"], body["status"]) == (group, "open")
    assert "expert" not in body


def test_a_restricted_group_makes_an_expert_even_of_an_end_user(admin: Client, client_of: ClientOf, run: str) -> None:
    group = grouped(admin, assertableBy={"minReviewerRole": "senior", "principalKinds": ["user"]})
    senior = client_of(role="admin", user="sue", reviewer_role="senior")
    body = recorded(senior, run, **RIGHT, correctorGroupId=group, participantId="u")
    assert (body["expert"], body["status"], body["fixedIn"]["how"]) == (True, "fixed", "recorded-right")
    service = client_of(role="admin", reviewer_role="admin")
    assert refused(service, run, **RIGHT, correctorGroupId=group) == (403, "corrector-group-not-allowed")
    assert refused(admin, run, **RIGHT, correctorGroupId=group) == (403, "corrector-group-not-allowed")
    admin.patch(f"/v1/corrector-groups/{group}", {"assertableBy": None})
    assert "expert" not in recorded(admin, run, **RIGHT, correctorGroupId=group)
    assert senior.get(f"/v1/corrections/{body['id']}").json["expert"] is True


def test_a_group_that_does_not_apply(admin: Client, engine: Engine, tenant: str, run: str) -> None:
    a_run(engine, tenant, project_id="q")
    elsewhere = grouped(admin, name="q", scope={"kind": "project", "projectId": "q"})
    other_agent = grouped(admin, name="a", scope={"kind": "agent", "projectId": "p", "agentId": "other"})
    retired = grouped(admin, name="r")
    assert admin.post(f"/v1/corrector-groups/{retired}/unregister").status_code == 200
    for group in (elsewhere, other_agent, retired, "nope", "x" * 5000):
        assert refused(admin, run, **RIGHT, correctorGroupId=group) == (400, "corrector-group-not-applicable")
    here = grouped(admin, name="h", scope={"kind": "agent", "projectId": "p", "agentId": "support"})
    assert recorded(admin, run, **RIGHT, correctorGroupId=here)["correctorGroupId"] == here


def test_the_first_check_that_fails_answers(admin: Client, engine: Engine, tenant: str, client_of: ClientOf) -> None:
    run = a_run(engine, tenant)
    lost = [{"key": "k", "pointer": "/nope", "verdict": "right"}]
    restricted = grouped(admin, assertableBy={"principalIds": ["nobody"]})
    assert refused(admin, run, items=lost, correctorGroupId="nope") == (400, "corrector-group-not-applicable")
    assert refused(admin, run, items=lost, correctorGroupId=restricted) == (403, "corrector-group-not-allowed")
    unfinished = a_run(engine, tenant, status="suspended", output=None)
    assert refused(admin, unfinished, items=lost, correctorGroupId="nope") == (409, "run-not-finished")
    erased = a_run(engine, tenant, input=None, output=None)
    with transaction(engine) as tx:
        tx.run("UPDATE runs SET erased_at = clock_timestamp() WHERE tenant_id = %s AND id = %s", (tenant, erased))
    assert refused(admin, erased, items=lost, correctorGroupId="nope") == (410, "run-erased")
    reader = client_of(grants=[Grant("project", "read", "p")])
    assert refused(reader, erased, items=lost) == (403, "permission-denied")
    assert refused(reader, "nope", items=lost) == (404, "run-not-found")
    assert refused(reader, "nope", items=lost, decisions="wrong") == (400, "bad-input")


def test_a_kept_answer_is_replayed_to_the_byte(admin: Client, client_of: ClientOf, run: str) -> None:
    key = {"Idempotency-Key": "k"}
    body = {"runId": run, **RIGHT}
    first = admin.post("/v1/corrections", body, headers=key)
    again = admin.post("/v1/corrections", body, headers=key)
    assert (again.status_code, again.data) == (201, first.data)
    assert again.headers["X-Idempotent-Replay"] == "true"
    assert again.content_type == first.content_type
    assert "X-Idempotent-Replay" not in first.headers
    other = admin.post("/v1/corrections", {"runId": run, **WRONG_ANSWER}, headers=key)
    assert (other.status_code, other.json["error"]["code"]) == (409, "idempotency-key-body-mismatch")
    someone_else = client_of(role="admin", user="ben").post("/v1/corrections", body, headers=key)
    assert someone_else.status_code == 201
    assert someone_else.json["id"] != first.json["id"]


def test_a_refused_request_keeps_no_answer_under_its_key(admin: Client, engine: Engine, tenant: str) -> None:
    body = {"runId": "later", **RIGHT}
    assert admin.post("/v1/corrections", body, headers={"Idempotency-Key": "k"}).status_code == 404
    a_run(engine, tenant, id="later")
    assert admin.post("/v1/corrections", body, headers={"Idempotency-Key": "k"}).status_code == 201


def test_the_copy_is_of_the_first_correction_and_to_the_byte(admin: Client, engine: Engine, tenant: str) -> None:
    given = '{"b":1.0,"a":[1e3,123456789012345678901234567890,"\\u0000\\ud800é"],"":null}'
    run = a_run(engine, tenant, input=given, output=given, segments=[{"key": "company", "value": "acme"}])
    first = recorded(admin, run, **RIGHT)
    second = recorded(admin, run, **RIGHT)
    text = admin.get(f"/v1/corrections/{second['id']}").text
    assert f'"input":{given},"output":{given},"segments":[{{"key":"company","value":"acme"}}]' in text
    assert f'"capturedAt":"{first["createdAt"]}"}}}}' in text


def test_ids_of_any_characters_come_back(admin: Client, engine: Engine, tenant: str, client_of: ClientOf) -> None:
    odd = 'a"b\\c/{}%s \u2028\U0001f600'
    run = a_run(engine, tenant, subject_kind="flow", subject_id=odd, subject_version=odd)
    body = recorded(client_of(role="admin", user=odd), run, **RIGHT, participantId=odd)
    assert body["subject"] == {"kind": "flow", "id": odd, "version": odd}
    assert (body["madeBy"]["id"], body["participantId"]) == (odd, odd)

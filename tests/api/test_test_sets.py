"""GET /v1/test-sets: which runs become cases, what is said of each, pages, streams and downloads."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import pytest
from sqlalchemy import Engine

from app.domain.model import Grant
from app.transaction import transaction
from tests.client import Client
from tests.conftest import ClientOf
from tests.factories import a_project, a_run

NDJSON = {"Accept": "application/x-ndjson"}
WRONG_CALL: dict[str, Any] = {"decisions": "wrong", "shouldCall": [{"tool": "refund", "args": {"order": 7}}]}

Correct = Callable[..., dict[str, Any]]


@pytest.fixture
def correct(admin: Client) -> Correct:
    """Records a correction: ``correct(run, by=client, decisions="right")``."""

    def record(run: str, by: Client = admin, **said: Any) -> dict[str, Any]:
        answer = by.post("/v1/corrections", {"runId": run, **(said or WRONG_CALL)})
        assert answer.status_code == 201, answer.text
        shown: dict[str, Any] = answer.json
        return shown

    return record


def group(admin: Client, weight: float, **over: Any) -> str:
    body = {"name": f"g{weight}", "weight": weight, "scope": {"kind": "tenant"}} | over
    answer = admin.post("/v1/corrector-groups", body)
    assert answer.status_code == 201, answer.text
    return str(answer.json["id"])


def cases(client: Client, query: str = "") -> list[dict[str, Any]]:
    answer = client.get(f"/v1/test-sets?limit=100{query}")
    assert answer.status_code == 200, answer.text
    data: list[dict[str, Any]] = answer.json["data"]
    return data


def run_ids(client: Client, query: str = "") -> list[str]:
    return [case["runId"] for case in cases(client, query)]


def test_a_case_holds_the_copy_all_that_is_said_and_what_follows_from_it(
    admin: Client, client_of: ClientOf, correct: Correct, engine: Engine, tenant: str
) -> None:
    segments = [{"key": "company", "value": "acme"}]
    run = a_run(engine, tenant, segments=segments)
    first = correct(run, correctorGroupId=group(admin, 2.5), **WRONG_CALL)
    ann = client_of(grants=[Grant("tenant", "write")], user="ann")
    second = correct(run, by=ann, decisions="right", answer="wrong", shouldSay="No.")
    assert cases(admin) == [
        {
            "runId": run,
            "projectId": "p",
            "subject": {"kind": "agent", "id": "support", "version": "1.0.0"},
            "input": {"message": "hello"},
            "output": {"answer": "hi"},
            "segments": segments,
            "capturedAt": first["createdAt"],
            "corrections": [second | {"weight": 1}, first | {"weight": 2.5}],
            "expected": {
                "decisions": {
                    "verdict": "wrong",
                    "weightRight": 1,
                    "weightWrong": 2.5,
                    "shouldCall": WRONG_CALL["shouldCall"],
                    "mustNotCall": [],
                },
                "answer": {"verdict": "wrong", "weightRight": 0, "weightWrong": 1, "shouldSay": ["No."]},
            },
        }
    ]


def test_payloads_come_to_the_letter(admin: Client, correct: Correct, engine: Engine, tenant: str) -> None:
    given = '{"n":1.0,"big":123456789012345678901234567890,"e":1e3,"z":"\\u0000\\ud800","z":"é"}'
    run = a_run(engine, tenant, input=given, output='[1.10,"\\u00e9",{"":null}]')
    correct(run, decisions="right")
    with transaction(engine) as tx:
        tx.run(
            "UPDATE copies SET context = %s WHERE tenant_id = %s AND run_id = %s",
            ('{"history":[],"toolEnv":{"a":{"b":"1.0"}}}', tenant, run),
        )
    expected = (
        f'"input":{given},"context":{{"history":[],"toolEnv":{{"a":{{"b":"1.0"}}}}}}'
        ',"output":[1.10,"\\u00e9",{"":null}],"segments":[]'
    )
    assert expected in admin.get("/v1/test-sets").text
    assert expected in admin.get("/v1/test-sets", headers=NDJSON).text
    assert expected in admin.get("/v1/test-sets/export").text


def test_what_no_longer_counts_is_left_out(
    admin: Client, client_of: ClientOf, correct: Correct, engine: Engine, tenant: str
) -> None:
    run, alone, replay, erased = (a_run(engine, tenant, **over) for over in ({}, {}, {"replay_of": "another"}, {}))
    correct(run, decisions="right")
    kept = correct(run)
    removed = correct(run, by=client_of(role="admin"), decisions="right")
    gone = correct(alone)
    correct(replay)
    correct(erased)
    with transaction(engine) as tx:
        for shown in (removed, gone):
            tx.run(
                "UPDATE corrections SET status = 'removed', unregistered_at = clock_timestamp()"
                " WHERE tenant_id = %s AND id = %s",
                (tenant, shown["id"]),
            )
        tx.run("UPDATE runs SET erased_at = clock_timestamp() WHERE tenant_id = %s AND id = %s", (tenant, erased))
    (case,) = cases(admin)
    assert case["corrections"] == [kept | {"weight": 1}]
    assert (case["expected"]["decisions"]["weightRight"], case["expected"]["decisions"]["weightWrong"]) == (0, 1)
    assert cases(admin, "&status=removed") == []


def test_a_retired_group_keeps_its_weight(admin: Client, correct: Correct, engine: Engine, tenant: str) -> None:
    run, heavy = a_run(engine, tenant), group(admin, 7)
    correct(run, correctorGroupId=heavy, **WRONG_CALL)
    assert admin.post(f"/v1/corrector-groups/{heavy}/unregister").status_code == 200
    assert cases(admin)[0]["corrections"][0]["weight"] == 7
    assert cases(admin)[0]["expected"]["decisions"]["weightWrong"] == 7


def test_a_tie_is_disputed(admin: Client, client_of: ClientOf, correct: Correct, engine: Engine, tenant: str) -> None:
    run = a_run(engine, tenant)
    correct(run, correctorGroupId=group(admin, 0.3), **WRONG_CALL)
    for weight in (0.1, 0.2):
        correct(run, by=client_of(role="admin"), correctorGroupId=group(admin, weight), decisions="right")
    assert cases(admin)[0]["expected"]["decisions"] == {
        "verdict": "disputed",
        "weightRight": 0.3,
        "weightWrong": 0.3,
        "shouldCall": WRONG_CALL["shouldCall"],
        "mustNotCall": [],
    }


def test_filters_choose_runs_and_all_their_corrections_count(
    admin: Client, client_of: ClientOf, correct: Correct, engine: Engine, tenant: str
) -> None:
    experts = group(admin, 3, assertableBy={"principalKinds": ["user"]})
    plain = group(admin, 1)
    by_expert, by_user, flow = (
        a_run(engine, tenant),
        a_run(engine, tenant, subject_version="2.0.0", project_id="q"),
        a_run(engine, tenant, subject_kind="flow", subject_id="intake"),
    )
    correct(by_expert, correctorGroupId=experts, **WRONG_CALL)
    correct(by_expert, participantId="u1", decisions="right")
    correct(by_user, participantId="u1", answer="wrong", why="rude")
    correct(flow, correctorGroupId=plain, decisions="right")
    found = {
        "": {by_expert, by_user, flow},
        "&agentId=support": {by_expert, by_user},
        "&agentId=support&agentVersion=2.0.0": {by_user},
        "&flowId=intake": {flow},
        "&flowId=intake&agentId=support": set(),
        "&projectId=q": {by_user},
        "&projectId=nowhere": set(),
        "&from=experts": {by_expert},
        "&from=end-users": {by_expert, by_user},
        "&from=all": {by_expert, by_user, flow},
        f"&correctorGroupId={plain}": {flow},
        "&status=with-owner": {by_expert},
        "&status=open,with-owner": {by_expert, by_user},
        "&status=not-fixed&status=fixed": {by_expert, by_user, flow},
        "&status=with-owner&from=end-users": set(),
        f"&status=open&correctorGroupId={experts}": set(),
    }
    assert {query: set(run_ids(admin, query)) for query in found} == found
    assert len(cases(admin, "&from=experts")[0]["corrections"]) == 2


def test_since_and_until_are_of_the_first_correction(
    admin: Client, client_of: ClientOf, correct: Correct, engine: Engine, tenant: str
) -> None:
    run = a_run(engine, tenant)
    first = correct(run)["createdAt"]
    later = correct(run, by=client_of(role="admin"))["createdAt"]
    assert first < later
    assert run_ids(admin, f"&since={first}&until={later}") == [run]
    assert run_ids(admin, f"&since={later}") == []
    assert run_ids(admin, f"&until={first}") == []


def test_segments_are_a_prefix_of_the_path(admin: Client, correct: Correct, engine: Engine, tenant: str) -> None:
    steps = [{"key": "company", "value": "a,b:c é"}, {"key": "role", "value": "x"}]
    deep = a_run(engine, tenant, segments=steps)
    swapped = a_run(engine, tenant, segments='[{"value":"a,b:c \\u00e9","key":"company"}]')
    for run in (deep, swapped, a_run(engine, tenant), a_run(engine, tenant, segments=steps[1:])):
        correct(run)
    company = "&segment=company:" + quote("a,b:c é")
    assert run_ids(admin, company) == [swapped, deep]
    assert run_ids(admin, company + "&segment=role:x") == [deep]
    assert run_ids(admin, company + "&segment=role:x&segment=role:x") == []
    assert run_ids(admin, "&segment=company:a") == []


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ("agentVersion=1", "agentVersion"),
        ("segment=company", "segment"),
        ("segment=Company:x", "segment"),
        ("segment=company:", "segment"),
        ("segment=company:%00", "segment"),
        ("status=nope", "status"),
        ("from=nobody", "from"),
        ("since=yesterday", "since"),
        ("runId=x", "runId"),
        ("limit=101", "limit"),
        ("cursor=x", "cursor"),
    ],
)
def test_a_bad_parameter_is_named(admin: Client, query: str, name: str) -> None:
    answer = admin.get(f"/v1/test-sets?{query}")
    assert (answer.status_code, answer.json["error"]["code"]) == (400, "bad-input")
    assert answer.json["error"]["details"]["issues"][0]["path"] == f"/query/{name}"


def test_pages_hold_every_case_once_newest_first(
    admin: Client, client_of: ClientOf, correct: Correct, engine: Engine, tenant: str
) -> None:
    runs = [a_run(engine, tenant) for _ in range(7)]
    for run in runs:
        correct(run)
    seen, cursor = [], ""
    while True:
        answer = admin.get(f"/v1/test-sets?limit=3&agentId=support{cursor}").json
        seen += [case["runId"] for case in answer["data"]]
        if not answer["hasMore"]:
            break
        cursor = f"&cursor={answer['nextCursor']}"
    assert seen == runs[::-1]
    stolen = client_of(role="admin").get(f"/v1/test-sets?limit=3&agentId=support{cursor}")
    assert stolen.json["error"]["code"] == "bad-input"


def test_only_readable_projects_count(
    admin: Client, client_of: ClientOf, correct: Correct, engine: Engine, tenant: str
) -> None:
    a_project(engine, tenant, "of-org", "org")
    runs = {project: a_run(engine, tenant, project_id=project) for project in ("p", "q", "of-org")}
    for run in runs.values():
        correct(run)
    readers = {
        "one": (client_of(grants=[Grant("project", "read", "p")]), {runs["p"]}),
        "org": (client_of(grants=[Grant("org", "write", "org")]), {runs["of-org"]}),
        "all": (client_of(grants=[Grant("tenant", "read")]), set(runs.values())),
        "none": (client_of(), set()),
        "stranger": (client_of(role="admin", tenant_id=f"{tenant}-other"), set()),
    }
    for client, readable in readers.values():
        assert set(run_ids(client)) == readable
        lines = client.get("/v1/test-sets", headers=NDJSON).text.splitlines()
        assert {json.loads(line)["runId"] for line in lines} == readable
        assert set(run_ids(client, "&projectId=q")) == readable & {runs["q"]}

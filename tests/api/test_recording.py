"""POST /v1/corrections: in which order it is refused, how it is sorted, what follows."""

from __future__ import annotations

import json
from typing import Any

import pytest
from sqlalchemy import Engine

from app.domain.model import Grant
from app.store.engine import reading
from app.transaction import transaction
from tests.api.corrected import RIGHT, WRONG_ANSWER, WRONG_CALL, record, refused
from tests.client import Client
from tests.conftest import ClientOf
from tests.factories import a_run


def kept_jobs(engine: Engine, tenant: str) -> list[tuple[str, dict[str, Any]]]:
    with reading(engine) as db:
        rows = db.rows("SELECT job, ids FROM outbox WHERE tenant_id = %s ORDER BY id", (tenant,))
    return [(name.removeprefix("corrigenda."), json.loads(ids)) for name, ids in rows]


@pytest.fixture
def run(engine: Engine, tenant: str) -> str:
    return a_run(engine, tenant, output={"answer": "hi", "matches": [{"id": 1}, None]})


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
    body = record(admin, a_run(engine, tenant), **said)
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
    first = record(admin, run, **WRONG_CALL)["id"]
    second = record(admin, run, **WRONG_ANSWER)["id"]
    record(admin, run, **RIGHT)
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
    first = record(admin, run, **WRONG_CALL)
    others = [
        record(admin, run, **RIGHT, participantId="u"),
        record(client_of(role="admin", user="ben"), run, **RIGHT),
    ]
    second = record(admin, run, **RIGHT)
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


def grouped(admin: Client, **group: Any) -> str:
    answer = admin.post("/v1/corrector-groups", {"name": "g", "weight": 2, "scope": {"kind": "tenant"}, **group})
    assert answer.status_code == 201, answer.text
    return str(answer.json["id"])


def test_an_unrestricted_group_makes_no_expert(admin: Client, run: str) -> None:
    group = grouped(admin)
    body = record(admin, run, **RIGHT, correctorGroupId=group, participantId="u")
    assert (body["correctorGroupId"], body["status"]) == (group, "open")
    assert "expert" not in body


def test_a_restricted_group_makes_an_expert_even_of_an_end_user(admin: Client, client_of: ClientOf, run: str) -> None:
    group = grouped(admin, assertableBy={"minReviewerRole": "senior", "principalKinds": ["user"]})
    senior = client_of(role="admin", user="sue", reviewer_role="senior")
    body = record(senior, run, **RIGHT, correctorGroupId=group, participantId="u")
    assert (body["expert"], body["status"], body["fixedIn"]["how"]) == (True, "fixed", "recorded-right")
    service = client_of(role="admin", reviewer_role="admin")
    assert refused(service, run, **RIGHT, correctorGroupId=group) == (403, "corrector-group-not-allowed")
    assert refused(admin, run, **RIGHT, correctorGroupId=group) == (403, "corrector-group-not-allowed")
    admin.patch(f"/v1/corrector-groups/{group}", {"assertableBy": None})
    assert "expert" not in record(admin, run, **RIGHT, correctorGroupId=group)
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
    assert record(admin, run, **RIGHT, correctorGroupId=here)["correctorGroupId"] == here


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
    first = record(admin, run, **RIGHT)
    second = record(admin, run, **RIGHT)
    text = admin.get(f"/v1/corrections/{second['id']}").text
    assert f'"input":{given},"output":{given},"segments":[{{"key":"company","value":"acme"}}]' in text
    assert f'"capturedAt":"{first["createdAt"]}"}}}}' in text


def test_ids_of_any_characters_come_back(admin: Client, engine: Engine, tenant: str, client_of: ClientOf) -> None:
    odd = 'a"b\\c/{}%s \u2028\U0001f600'
    run = a_run(engine, tenant, subject_kind="flow", subject_id=odd, subject_version=odd)
    body = record(client_of(role="admin", user=odd), run, **RIGHT, participantId=odd)
    assert body["subject"] == {"kind": "flow", "id": odd, "version": odd}
    assert (body["madeBy"]["id"], body["participantId"]) == (odd, odd)

"""POST /v1/corrections: what is taken, in which order it is refused, how it is sorted, what follows."""

from __future__ import annotations

import json
from typing import Any

import pytest
from sqlalchemy import Engine

from app.domain.model import Grant
from app.store.engine import reading
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

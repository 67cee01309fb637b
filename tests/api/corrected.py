"""Corrections of all sorts, and what the list, the counts and the exports say of them."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import Engine

from app.transaction import transaction
from tests.client import Client
from tests.conftest import ClientOf
from tests.factories import a_project, a_run

WRONG_CALL: dict[str, Any] = {"decisions": "wrong", "shouldCall": [{"tool": "refund", "args": {"n": 10**30}}]}
WRONG_ANSWER = {"answer": "wrong", "shouldSay": "=1+1"}
RIGHT = {"decisions": "right"}


def record(client: Client, run: str, **said: Any) -> dict[str, Any]:
    answer = client.post("/v1/corrections", {"runId": run, **said})
    assert answer.status_code == 201, answer.text
    body: dict[str, Any] = answer.json
    return body


def refused(client: Client, run: str, **said: Any) -> tuple[int, str]:
    answer = client.post("/v1/corrections", {"runId": run, **said})
    return answer.status_code, answer.json["error"]["code"]


def put_into(engine: Engine, tenant: str, correction: str, **columns: Any) -> None:
    """Move a correction to where this test needs it, past the services that would."""
    sets = ", ".join(f"{name} = %({name})s" for name in columns)
    with transaction(engine) as tx:
        tx.run(
            f"UPDATE corrections SET {sets} WHERE tenant_id = %(tenant)s AND id = %(id)s",
            {"tenant": tenant, "id": correction, **columns},
        )


def change(engine: Engine, tenant: str, correction: dict[str, Any], sets: str, **values: Any) -> None:
    with transaction(engine) as tx:
        tx.run(
            f"UPDATE corrections SET {sets} WHERE tenant_id = %(tenant)s AND id = %(id)s",
            {"tenant": tenant, "id": correction["id"], **values},
        )


def happened(engine: Engine, tenant: str, correction: dict[str, Any], kind: str, after: timedelta, how: str) -> None:
    """A history row of ``correction``, so long after it was made."""
    with transaction(engine) as tx:
        tx.run(
            "INSERT INTO correction_history (tenant_id, correction_id, at, kind, how)"
            " SELECT tenant_id, id, created_at + %s, %s, %s FROM corrections WHERE tenant_id = %s AND id = %s",
            (after, kind, how, tenant, correction["id"]),
        )


def listed(client: Client, query: str = "") -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    cursor = ""
    while True:
        answer = client.get(f"/v1/corrections?limit=2{query}{cursor}")
        assert answer.status_code == 200, answer.text
        rows += answer.json["data"]
        if not answer.json["hasMore"]:
            return rows
        cursor = f"&cursor={answer.json['nextCursor']}"


def first_page(client: Client, query: str = "") -> list[str]:
    answer = client.get(f"/v1/corrections?{query}")
    assert answer.status_code == 200, answer.text
    return [row["id"] for row in answer.json["data"]]


def paged(client: Client, query: str, limit: int) -> list[str]:
    """All pages of a list, checking that each but the last is full."""
    seen: list[str] = []
    cursor = ""
    while True:
        answer = client.get(f"/v1/corrections?{query}&limit={limit}{cursor}").json
        seen += [row["id"] for row in answer["data"]]
        if not answer["hasMore"]:
            assert "nextCursor" not in answer
            return seen
        assert len(answer["data"]) == limit
        cursor = f"&cursor={answer['nextCursor']}"


def stats(client: Client, query: str = "") -> dict[str, Any]:
    answer = client.get(f"/v1/corrections/stats?{query}")
    assert answer.status_code == 200, answer.text
    body: dict[str, Any] = answer.json
    return body


def exported(client: Client, query: str = "") -> list[dict[str, Any]]:
    answer = client.get(f"/v1/corrections/export?format=jsonl{query}")
    assert answer.status_code == 200, answer.text
    return [json.loads(line) for line in answer.text.splitlines()]


@pytest.fixture
def many(admin: Client, client_of: ClientOf, engine: Engine, tenant: str) -> str:
    """Corrections of all sorts; gives the id of the corrector group of some."""
    a_project(engine, tenant, "of-org", "org")
    group = admin.post(
        "/v1/corrector-groups",
        {"name": "g", "weight": 1, "scope": {"kind": "tenant"}, "assertableBy": {"principalKinds": ["user"]}},
    ).json["id"]
    other = client_of(role="admin")
    runs = [
        a_run(engine, tenant),
        a_run(engine, tenant, subject_version="2.0.0"),
        a_run(engine, tenant, project_id="q", subject_id="a:b"),
        a_run(engine, tenant, project_id="of-org", subject_kind="flow", subject_id="intake"),
    ]
    for run in runs:
        record(admin, run, **WRONG_CALL)
        record(admin, run, correctorGroupId=group, **WRONG_ANSWER)
        record(admin, run, participantId="u3", **WRONG_CALL)
        record(other, run, **RIGHT)
        record(other, run, participantId="u1", answer="wrong", why="rude")
    gone = record(admin, runs[0], participantId="u2", **RIGHT)
    change(engine, tenant, gone, "status = 'removed', unregistered_at = clock_timestamp()")
    return str(group)

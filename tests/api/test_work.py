from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import Engine

from app.domain.model import Grant
from app.services import route
from app.transaction import transaction
from tests.client import Client
from tests.conftest import ClientOf
from tests.factories import a_correction, a_project

COUNTS = {"ready": 0, "leased": 0, "parked": 0, "done": 0, "withdrawn": 0}


@pytest.fixture
def put_in(engine: Engine, tenant: str) -> Any:
    """Makes a correction in a project and its work item, perhaps changed by columns; the correction's id."""

    def put_in(project_id: str = "p", queue: str = "improve", **columns: Any) -> str:
        status = "with-owner" if queue == "owner" else "open"
        correction = a_correction(engine, tenant, project_id=project_id, sorted_to=queue, status=status)
        with transaction(engine) as tx:
            route.sync(tx, tenant, [correction])
            if columns:
                changes = ", ".join(f"{name} = {value}" for name, value in columns.items())
                tx.run(
                    f"UPDATE work_items SET {changes} WHERE tenant_id = %s AND correction_id = %s", (tenant, correction)
                )
        return correction

    return put_in


def listed(client: Client, query: str = "") -> list[str]:
    answer = client.get(f"/v1/work{query}")
    assert answer.status_code == 200, answer.text
    return [row["correctionId"] for row in answer.json["data"]]


def test_rows_show_the_item(admin: Client, put_in: Any) -> None:
    correction = put_in(queue="owner")
    row = admin.get("/v1/work").json["data"][0]
    assert row == {
        "workItemId": row["workItemId"], "queue": "owner", "state": "ready", "attempt": 0, "projectId": "p",
        "correctionId": correction, "readySince": row["readySince"],
    }  # fmt: skip


def test_filters_and_states(admin: Client, put_in: Any) -> None:
    ready = put_in()
    leased = put_in(state="'leased'", lease_expires_at="now() + interval '1 minute'", attempt="1")
    expired = put_in(state="'leased'", lease_expires_at="now() - interval '1 minute'", attempt="1")
    parked = put_in(queue="developer", state="'parked'")
    done = put_in(project_id="q", queue="owner", state="'done'")
    assert listed(admin) == [done, parked, expired, leased, ready]
    assert listed(admin, "?state=ready") == [expired, ready]
    assert listed(admin, "?state=leased") == [leased]
    assert listed(admin, "?state=parked") == listed(admin, "?queue=developer") == [parked]
    assert listed(admin, "?state=done&queue=owner&projectId=q") == [done]
    assert listed(admin, "?projectId=q&state=ready") == listed(admin, "?projectId=none") == []
    rows = {row["correctionId"]: row for row in admin.get("/v1/work").json["data"]}
    assert "leaseExpiresAt" in rows[leased]
    assert "leaseExpiresAt" not in rows[expired]
    assert (rows[expired]["state"], rows[expired]["attempt"]) == ("ready", 1)
    assert admin.get("/v1/work?state=nope").json["error"]["code"] == "bad-input"
    assert admin.get("/v1/work/stats").json == {
        "queues": {
            "improve": COUNTS | {"ready": 2, "leased": 1, "oldestReadySeconds": pytest.approx(0, abs=60)},
            "developer": COUNTS | {"parked": 1},
            "owner": COUNTS | {"done": 1},
        }
    }


def test_pages_hold_each_item_once(admin: Client, put_in: Any) -> None:
    made = [put_in(queue=queue) for queue in ("improve", "owner", "developer") for _ in range(3)]
    seen: list[str] = []
    cursor = ""
    while True:
        answer = admin.get(f"/v1/work?limit=2{cursor}").json
        seen += [row["correctionId"] for row in answer["data"]]
        if not answer["hasMore"]:
            break
        cursor = f"&cursor={answer['nextCursor']}"
    assert seen == made[::-1]


def test_only_what_may_be_read(engine: Engine, tenant: str, client_of: ClientOf, put_in: Any) -> None:
    a_project(engine, tenant, "in-org", org_id="o")
    mine, theirs, orgs = put_in(), put_in(project_id="other"), put_in(project_id="in-org")
    reader = client_of(grants=[Grant("project", "read", "p"), Grant("org", "read", "o")])
    assert listed(reader) == [orgs, mine]
    assert listed(reader, "?projectId=other") == []
    assert reader.get("/v1/work/stats").json["queues"]["improve"]["ready"] == 2
    nobody = client_of()
    assert listed(nobody) == []
    assert nobody.get("/v1/work/stats").json["queues"] == dict.fromkeys(("improve", "developer", "owner"), COUNTS)
    assert listed(client_of(grants=[Grant("tenant", "read")], tenant_id=f"{tenant}-2")) == []
    assert theirs in listed(client_of(grants=[Grant("tenant", "read")]))


def test_an_oldest_ready_item_has_an_age(admin: Client, put_in: Any) -> None:
    put_in(ready_since="now() - interval '1 hour'")
    put_in()
    assert admin.get("/v1/work/stats").json["queues"]["improve"]["oldestReadySeconds"] == pytest.approx(3600, abs=60)

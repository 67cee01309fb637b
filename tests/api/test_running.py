"""What projects run: how deploys, pins and unpins move it, and what each answers."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import Engine

from app.domain import times
from app.domain.model import Grant
from app.store.engine import reading
from tests.client import Client
from tests.conftest import ClientOf
from tests.factories import a_project, a_run

SUPPORT = {"kind": "agent", "id": "support"}
ADMIN = {"kind": "user", "id": "admin"}


def deploy(client: Client, version: str, **more: Any) -> Any:
    answer = client.post("/v1/deploys", {"subject": SUPPORT, "version": version} | more)
    assert answer.status_code == 202, answer.text
    return answer.json


def pin(client: Client, version: str, project: str = "p", **more: Any) -> Any:
    answer = client.post(f"/v1/projects/{project}/pins", {"subject": SUPPORT, "version": version} | more)
    assert answer.status_code == 202, answer.text
    return answer.json


def unpin(client: Client, project: str = "p") -> Any:
    answer = client.post(f"/v1/projects/{project}/unpins", {"subject": SUPPORT})
    assert answer.status_code == 202, answer.text
    return answer.json


def runs(client: Client, project: str = "p") -> Any:
    return client.get(f"/v1/projects/{project}/running").json


def ran(client: Client, project: str = "p") -> list[tuple[Any, ...]]:
    rows = client.get(f"/v1/projects/{project}/running/history").json["data"]
    return [(row.get("version"), row["how"], row.get("by")) for row in rows]


def ago(**much: float) -> str:
    return times.wire(datetime.now(UTC) - timedelta(**much))


def test_latest_moves_in_every_project_that_follows_it(admin: Client, engine: Engine, tenant: str) -> None:
    for project in ("b", "a", "pinned"):
        a_run(engine, tenant, project_id=project)
    a_project(engine, tenant, "stranger")
    pin(admin, "1.0.0", "pinned")
    made = deploy(admin, "2.0.0")
    at = made["changed"][0]["at"]
    assert made == {
        "id": made["id"],
        "subject": SUPPORT,
        "version": "2.0.0",
        "changed": [
            {"projectId": "a", "version": "2.0.0", "how": "latest", "at": at},
            {"projectId": "b", "version": "2.0.0", "how": "latest", "at": at},
        ],
    }
    assert runs(admin, "a") == [{"subject": SUPPORT, "version": "2.0.0", "how": "latest", "at": at, "pinned": False}]
    assert runs(admin, "pinned")[0]["version"] == "1.0.0"
    assert runs(admin, "stranger") == []


def test_a_project_runs_latest_from_the_first_time_that_it_knows_the_subject(
    admin: Client, engine: Engine, tenant: str
) -> None:
    deploy(admin, "2.0.0")
    a_project(engine, tenant)
    body = {"projectId": "p", "subject": SUPPORT | {"version": "9.9.9"}, "status": "running", "input": None}
    assert admin.put("/v1/runs/r", body).status_code == 201
    shown = runs(admin)
    assert shown == [{"subject": SUPPORT, "version": "2.0.0", "how": "latest", "at": shown[0]["at"], "pinned": False}]
    assert ran(admin) == [("2.0.0", "latest", None)]
    assert [change["projectId"] for change in deploy(admin, "3.0.0")["changed"]] == ["p"]
    assert ran(admin) == [("3.0.0", "latest", None), ("2.0.0", "latest", None)]


def test_a_first_pin_makes_known_and_goes_back_from_nothing(admin: Client, engine: Engine, tenant: str) -> None:
    deploy(admin, "2.0.0")
    a_project(engine, tenant)
    made = pin(admin, "1.0.0")
    at = made["changed"][0]["at"]
    assert made["changed"] == [{"projectId": "p", "version": "1.0.0", "how": "pin", "by": ADMIN, "at": at}]
    assert ran(admin) == [("1.0.0", "pin", ADMIN)]


def test_how_a_project_came_to_run_a_version(admin: Client, engine: Engine, tenant: str) -> None:
    a_run(engine, tenant)
    deploy(admin, "1.9.0")
    pin(admin, "1.10.0")
    pin(admin, "1.10.0-rc.1")
    pin(admin, "1.10.0-rc.1")
    unpin(admin)
    deploy(admin, "2.0.0")
    assert ran(admin) == [
        ("2.0.0", "latest", None),
        ("1.9.0", "unpin", ADMIN),
        ("1.10.0-rc.1", "pin", ADMIN),
        ("1.10.0-rc.1", "went-back", ADMIN),
        ("1.10.0", "pin", ADMIN),
        ("1.9.0", "latest", None),
    ]


def test_versions_that_are_not_semantic_go_by_first_sight_in_the_tenant(
    admin: Client, engine: Engine, tenant: str
) -> None:
    a_run(engine, tenant, subject_version="zebra")
    a_project(engine, tenant, "other")
    pin(admin, "zebra", "other")
    deploy(admin, "apple")
    assert pin(admin, "zebra")["changed"][0]["how"] == "went-back"
    assert pin(admin, "apple")["changed"][0]["how"] == "pin"


def test_what_only_a_run_claims_is_not_seen(admin: Client, engine: Engine, tenant: str) -> None:
    a_run(engine, tenant, subject_version="first")
    deploy(admin, "second")
    assert pin(admin, "first")["changed"][0]["how"] == "pin"


def test_an_older_deploy_is_kept_and_moves_nothing(admin: Client, engine: Engine, tenant: str) -> None:
    a_run(engine, tenant)
    deploy(admin, "2.0.0", at=ago(hours=1))
    assert deploy(admin, "1.0.0", at=ago(hours=2))["changed"] == []
    assert runs(admin)[0]["version"] == "2.0.0"
    assert deploy(admin, "3.0.0", at=ago(minutes=30))["changed"] != []
    with reading(engine) as db:
        kept = db.rows("SELECT version, moved FROM deploys WHERE tenant_id = %s ORDER BY accepted_at", (tenant,))
    assert kept == [("2.0.0", True), ("1.0.0", False), ("3.0.0", True)]


def test_a_future_deploy_counts_as_now(admin: Client, engine: Engine, tenant: str) -> None:
    a_run(engine, tenant)
    deploy(admin, "1.0.0", at="2999-01-01T00:00:00Z")
    assert deploy(admin, "2.0.0")["changed"] != []


def test_a_deploy_of_what_is_latest_changes_nothing(admin: Client, engine: Engine, tenant: str) -> None:
    a_run(engine, tenant)
    deploy(admin, "1.0.0", at=ago(hours=2))
    before = runs(admin)
    assert deploy(admin, "1.0.0")["changed"] == []
    assert runs(admin) == before
    assert len(ran(admin)) == 1
    assert deploy(admin, "2.0.0", at=ago(hours=1))["changed"] != []


def test_an_unpin_before_any_deploy_leaves_nothing_running(admin: Client, engine: Engine, tenant: str) -> None:
    a_project(engine, tenant)
    pin(admin, "1.0.0")
    made = unpin(admin)
    at = made["changed"][0]["at"]
    assert made == {
        "id": made["id"],
        "subject": SUPPORT,
        "changed": [{"projectId": "p", "how": "unpin", "by": ADMIN, "at": at}],
    }
    assert runs(admin) == []
    assert ran(admin) == [(None, "unpin", ADMIN), ("1.0.0", "pin", ADMIN)]
    assert pin(admin, "0.5.0")["changed"][0]["how"] == "pin"


def test_only_what_is_pinned_can_be_unpinned(admin: Client, engine: Engine, tenant: str) -> None:
    a_run(engine, tenant)
    for _ in range(2):
        answer = admin.post("/v1/projects/p/unpins", {"subject": SUPPORT})
        assert (answer.status_code, answer.json["error"]["code"]) == (409, "not-pinned")
        pin(admin, "1.0.0")
        unpin(admin)


@pytest.mark.parametrize(
    ("more", "path"),
    [
        ({"version": ""}, "/version"),
        ({"version": None}, "/version"),
        ({"how": "push"}, "/how"),
        ({"at": "2026-01-01T00:00:00"}, "/at"),
        ({"subject": {"kind": "tool", "id": "x"}}, "/subject/kind"),
        ({"subject": SUPPORT | {"version": "1"}}, "/subject/version"),
        ({"resolves": {"links": [{"kind": "pull-request", "id": "7"}]}}, "/resolves/links/0/url"),
        ({"resolves": {"links": [{"kind": "pull-request", "url": "javascript:alert(1)"}]}}, "/resolves/links/0/url"),
        ({"resolves": {"links": [{"kind": "improve-run", "id": "7", "url": "http://x"}]}}, "/resolves/links/0/url"),
        ({"resolves": {"correctionIds": [1]}}, "/resolves/correctionIds/0"),
        ({"projectId": "p"}, "/projectId"),
    ],
)
def test_bad_deploys_are_named(admin: Client, more: dict[str, Any], path: str) -> None:
    answer = admin.post("/v1/deploys", {"subject": SUPPORT, "version": "1"} | more)
    assert answer.status_code == 400
    assert path in [issue["path"] for issue in answer.json["error"]["details"]["issues"]]


def test_who_may(client_of: ClientOf, engine: Engine, tenant: str) -> None:
    a_run(engine, tenant)
    writer = client_of(grants=[Grant("project", "write", "p")])
    reader = client_of(grants=[Grant("project", "read", "p")])
    stranger = client_of(grants=[Grant("project", "write", "q")])
    body = {"subject": SUPPORT, "version": "1"}
    for client in (writer, reader):
        assert client.post("/v1/deploys", body).json["error"]["code"] == "permission-denied"
    assert client_of(grants=[Grant("tenant", "write")]).post("/v1/deploys", body).status_code == 202
    assert writer.post("/v1/projects/p/pins", body).status_code == 202
    assert reader.post("/v1/projects/p/pins", body).status_code == 403
    assert reader.get("/v1/projects/p/running").status_code == 200
    for method, path in [("POST", "pins"), ("POST", "unpins"), ("GET", "running"), ("GET", "running/history")]:
        sent = {k: v for k, v in body.items() if path == "pins" or k == "subject"} if method == "POST" else None
        answer = stranger.send(method, f"/v1/projects/p/{path}", sent)
        assert (answer.status_code, answer.json["error"]["code"]) == (404, "project-not-found")

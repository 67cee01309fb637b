from __future__ import annotations

from typing import Any

import pytest

from app.domain.model import Grant
from tests.client import Client
from tests.conftest import ClientOf


def test_a_project_is_made_changed_and_cleared(admin: Client) -> None:
    made = admin.put("/v1/projects/p", {"name": "P", "orgId": "o", "retention": {"runsDays": 30}})
    assert made.status_code == 201
    shown = made.json
    assert {name: shown[name] for name in ("id", "tenantId", "name", "orgId", "retention")} == {
        "id": "p",
        "tenantId": admin.caller.tenant_id,
        "name": "P",
        "orgId": "o",
        "retention": {"runsDays": 30},
    }
    assert shown["createdAt"] == shown["updatedAt"]
    more = admin.put("/v1/projects/p", {"retention": {"tombstonesDays": 7}})
    assert (more.status_code, more.json["retention"]) == (200, {"runsDays": 30, "tombstonesDays": 7})
    assert more.json["name"] == "P"
    one = admin.put("/v1/projects/p", {"retention": {"runsDays": None}, "name": None}).json
    assert (one["retention"], "name" in one) == ({"tombstonesDays": 7}, False)
    none = admin.put("/v1/projects/p", {"retention": None, "orgId": None}).json
    assert {"retention", "orgId", "name"}.isdisjoint(none)
    assert admin.get("/v1/projects/p").json == none
    for again in ({}, {"name": None}):
        assert admin.put("/v1/projects/p", again).json == none
    assert admin.put("/v1/projects/bare").status_code == 201


REFUSED: list[tuple[dict[str, Any], str, str]] = [
    ({"id": "p"}, "unknown-field", "/id"),
    ({"name": ""}, "bad-input", "/name"),
    ({"name": "x" * 257}, "bad-input", "/name"),
    ({"orgId": ""}, "bad-input", "/orgId"),
    ({"orgId": "\x00"}, "bad-input", "/orgId"),
    ({"retention": 3}, "bad-input", "/retention"),
    ({"retention": {"runsDays": 0}}, "bad-input", "/retention/runsDays"),
    ({"retention": {"runsDays": 1.5}}, "bad-input", "/retention/runsDays"),
    ({"retention": {"runsDays": True}}, "bad-input", "/retention/runsDays"),
    ({"retention": {"days": 1}}, "unknown-field", "/retention/days"),
]


@pytest.mark.parametrize(("body", "code", "path"), REFUSED)
def test_what_is_malformed_is_refused_by_its_path(admin: Client, body: dict[str, Any], code: str, path: str) -> None:
    answer = admin.put("/v1/projects/p", body)
    assert (answer.status_code, answer.json["error"]["code"]) == (400, code)
    assert [issue["path"] for issue in answer.json["error"]["details"]["issues"]] == [path]
    assert admin.get("/v1/projects/p").status_code == 404


@pytest.mark.parametrize("project_id", ["a%20b", "%C3%A9", "a" * 129, "a%00", "a%2Fb"])
def test_a_malformed_id_is_refused_where_it_would_be_made(admin: Client, project_id: str) -> None:
    assert admin.put(f"/v1/projects/{project_id}", {}).json["error"]["code"] == "bad-input"
    assert admin.get(f"/v1/projects/{project_id}").json["error"]["code"] == "project-not-found"


def test_putting_needs_admin_on_the_tenant(admin: Client, client_of: ClientOf) -> None:
    admin.put("/v1/projects/p", {"name": "P"})
    for grants in ([], [Grant("tenant", "write")], [Grant("project", "admin", "p")]):
        answer = client_of(grants=grants).put("/v1/projects/p", {"name": "Q"})
        assert (answer.status_code, answer.json["error"]["code"]) == (403, "permission-denied")
    assert admin.get("/v1/projects/p").json["name"] == "P"
    assert client_of(grants=[Grant("tenant", "admin")]).put("/v1/projects/p", {"name": "Q"}).status_code == 200


def test_a_caller_sees_the_projects_that_it_can_read(admin: Client, client_of: ClientOf) -> None:
    for name in ("a", "b", "c", "d"):
        admin.put(f"/v1/projects/{name}", {"orgId": "o"} if name in "bc" else {})

    def seen(client: Client) -> list[str]:
        return [row["id"] for row in client.get("/v1/projects").json["data"]]

    assert seen(admin) == ["d", "c", "b", "a"]
    member = client_of(grants=[Grant("org", "read", "o"), Grant("project", "write", "a")])
    assert seen(member) == ["c", "b", "a"]
    assert member.get("/v1/projects/a").status_code == 200
    assert member.get("/v1/projects/d").json["error"]["code"] == "project-not-found"
    assert seen(client_of(grants=[Grant("tenant", "read")])) == ["d", "c", "b", "a"]
    assert seen(client_of()) == []
    elsewhere = client_of(role="admin", tenant_id=f"{admin.caller.tenant_id}-other")
    assert seen(elsewhere) == []
    assert elsewhere.get("/v1/projects/a").status_code == 404


def test_pages_are_full_of_what_may_be_read(admin: Client, client_of: ClientOf) -> None:
    for number in range(10):
        admin.put(f"/v1/projects/p{number}", {"orgId": "o"} if number % 2 else {})
    member = client_of(grants=[Grant("org", "read", "o")])
    first = member.get("/v1/projects?limit=3").json
    assert [row["id"] for row in first["data"]] == ["p9", "p7", "p5"]
    second = member.get(f"/v1/projects?limit=3&cursor={first['nextCursor']}").json
    assert ([row["id"] for row in second["data"]], second["hasMore"]) == (["p3", "p1"], False)

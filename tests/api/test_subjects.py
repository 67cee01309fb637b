from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest
from sqlalchemy import Engine

from app.domain.model import Grant
from tests.client import Client
from tests.conftest import ClientOf
from tests.factories import a_run

ANN = {"kind": "user", "id": "ann"}
CI = {"kind": "service", "id": "ci"}


@pytest.mark.parametrize(("path", "missing"), [("agents", "agent-not-found"), ("flows", "flow-not-found")])
def test_a_subject_is_registered_changed_and_cleared(admin: Client, path: str, missing: str) -> None:
    assert admin.get(f"/v1/{path}/x").json["error"]["code"] == missing
    made = admin.put(f"/v1/{path}/x", {"name": "X", "owners": [CI, ANN]})
    assert (made.status_code, made.json["name"], made.json["owners"]) == (201, "X", [CI, ANN])
    assert admin.put(f"/v1/{path}/x", {"owners": [ANN]}).json["name"] == "X"
    assert admin.put(f"/v1/{path}/x", {"name": "Y"}).json["owners"] == [ANN]
    cleared = admin.put(f"/v1/{path}/x", {"name": None, "owners": None})
    assert (cleared.status_code, cleared.json["owners"], "name" in cleared.json) == (200, [], False)
    assert admin.get(f"/v1/{path}/x").json == cleared.json
    assert admin.put(f"/v1/{path}/x", {}).json == cleared.json
    assert [row["id"] for row in admin.get(f"/v1/{path}").json["data"]] == ["x"]


def test_agents_and_flows_are_apart(admin: Client) -> None:
    admin.put("/v1/agents/x", {})
    assert admin.get("/v1/flows/x").status_code == 404
    assert admin.get("/v1/flows").json["data"] == []


@pytest.mark.parametrize("name", ["a b", "a/b", "/a", "a//b", "é", "100%", "?x=1#", "a\nb", "x" * 256, "../y", "a+b"])
def test_ids_are_any_characters(admin: Client, name: str) -> None:
    path = f"/v1/agents/{quote(name, safe='')}"
    assert admin.put(path, {"owners": [ANN]}).status_code == 201
    shown = admin.get(path)
    assert (shown.status_code, shown.json["id"]) == (200, name)


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"owners": [ANN, CI, ANN]}, "/owners/2"),
    ({"owners": ANN}, "/owners"),
    ({"owners": [{"kind": "user"}]}, "/owners/0/id"),
    ({"owners": [{"kind": "user", "id": ""}]}, "/owners/0/id"),
    ({"owners": [{"kind": "user", "id": "x" * 257}]}, "/owners/0/id"),
    ({"owners": [{"kind": "rule", "id": "x"}]}, "/owners/0/kind"),
    ({"owners": [ANN | {"x": 1}]}, "/owners/0/x"),
    ({"name": ""}, "/name"),
    ({"name": "a\x00"}, "/name"),
    ({"id": "x"}, "/id"),
]


@pytest.mark.parametrize(("body", "path"), REFUSED)
def test_what_is_malformed_is_refused_by_its_path(admin: Client, body: dict[str, Any], path: str) -> None:
    answer = admin.put("/v1/agents/x", body)
    assert answer.status_code == 400
    assert [issue["path"] for issue in answer.json["error"]["details"]["issues"]] == [path]


def test_ids_are_bounded(admin: Client) -> None:
    assert admin.put(f"/v1/agents/{'x' * 257}", {}).json["error"]["code"] == "bad-input"
    assert admin.put("/v1/agents/a%00", {}).json["error"]["code"] == "bad-input"
    assert admin.get(f"/v1/agents/{'x' * 257}").json["error"]["code"] == "agent-not-found"
    assert admin.get("/v1/agents/a%00").json["error"]["code"] == "agent-not-found"


def test_registering_needs_admin_on_the_tenant(client_of: ClientOf) -> None:
    for grants in ([], [Grant("tenant", "write")], [Grant("project", "admin", "p")]):
        answer = client_of(grants=grants).put("/v1/agents/x", {"owners": []})
        assert (answer.status_code, answer.json["error"]["code"]) == (403, "permission-denied")
    assert client_of(grants=[Grant("tenant", "admin")]).put("/v1/agents/x", {}).status_code == 201


def test_what_is_registered_or_known_to_a_readable_project_is_seen(
    admin: Client, client_of: ClientOf, engine: Engine, tenant: str
) -> None:
    a_run(engine, tenant, project_id="p", subject_id="in-p")
    a_run(engine, tenant, project_id="q", subject_id="in-q")
    assert admin.put("/v1/agents/in-p", {"name": "P"}).status_code == 201
    admin.put("/v1/agents/registered", {})
    a_run(engine, tenant, project_id="p", subject_id="also-in-p")

    def seen(client: Client) -> list[str]:
        return [row["id"] for row in client.get("/v1/agents").json["data"]]

    assert seen(admin) == ["also-in-p", "registered", "in-q", "in-p"]
    assert seen(client_of(grants=[Grant("project", "read", "p")])) == ["also-in-p", "registered", "in-p"]
    stranger = client_of()
    assert seen(stranger) == ["registered", "in-p"]
    assert stranger.get("/v1/agents/in-q").status_code == 404
    assert admin.get("/v1/agents/in-q").json["owners"] == []
    elsewhere = client_of(role="admin", tenant_id=f"{tenant}-other")
    assert seen(elsewhere) == []
    assert elsewhere.get("/v1/agents/registered").status_code == 404


def test_pages_hold_every_subject_once(admin: Client) -> None:
    for number in range(7):
        admin.put(f"/v1/flows/f{number}", {})
    seen, cursor = [], ""
    while True:
        answer = admin.get(f"/v1/flows?limit=3{cursor}").json
        seen += [row["id"] for row in answer["data"]]
        if not answer["hasMore"]:
            break
        cursor = f"&cursor={answer['nextCursor']}"
    assert seen == [f"f{number}" for number in reversed(range(7))]
    assert admin.get(f"/v1/agents?limit=3{cursor}").status_code == 400

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from sqlalchemy import Engine

from app.domain.model import Grant
from app.store.groups import assertable_of, assertable_text
from tests.client import Client
from tests.conftest import ClientOf
from tests.factories import a_project

TENANT = {"kind": "tenant"}
PROJECT = {"kind": "project", "projectId": "p"}
AGENT = {"kind": "agent", "projectId": "p", "agentId": "support / EU"}


def made(client: Client, **over: Any) -> dict[str, Any]:
    answer = client.post("/v1/corrector-groups", {"name": "experts", "weight": 3, "scope": TENANT} | over)
    assert answer.status_code == 201, answer.text
    shown: dict[str, Any] = answer.json
    return shown


def code_of(answer: Any) -> tuple[int, str]:
    return answer.status_code, answer.json["error"]["code"]


def test_a_group_is_made_fetched_changed_and_retired(admin: Client, engine: Engine, tenant: str) -> None:
    a_project(engine, tenant)
    group = made(admin, scope=AGENT, description="the desk", weight=2.5)
    assert set(group) == {"id", "name", "weight", "description", "scope", "createdAt", "updatedAt"}
    assert (group["weight"], group["scope"]) == (2.5, AGENT)
    path = f"/v1/corrector-groups/{group['id']}"
    assert admin.get(path).json == group

    rule = {"minReviewerRole": "senior", "principalKinds": ["user"], "principalIds": ["ann", "bob", "ann"]}
    changed = admin.patch(path, {"weight": 0, "assertableBy": rule}).json
    assert changed["weight"] == 0
    assert changed["description"] == "the desk"
    assert changed["assertableBy"] == rule | {"principalIds": ["ann", "bob"], "principalCount": 2}
    assert changed["updatedAt"] > group["updatedAt"]
    assert "assertableBy" not in admin.patch(path, {"assertableBy": None}).json

    retired = admin.post(f"{path}/unregister")
    assert retired.status_code == 200
    assert retired.json["unregisteredAt"] == retired.json["updatedAt"]
    assert admin.post(f"{path}/unregister").data == retired.data
    assert admin.get(path).json == retired.json
    assert code_of(admin.patch(path, {"weight": 1})) == (409, "corrector-group-unregistered")
    assert admin.get("/v1/corrector-groups").json["data"] == []


def test_a_name_is_taken_once_in_its_scope(admin: Client, engine: Engine, tenant: str) -> None:
    a_project(engine, tenant)
    group = made(admin)
    made(admin, scope=PROJECT)
    made(admin, scope=AGENT)
    for scope in (TENANT, PROJECT, AGENT):
        again = admin.post("/v1/corrector-groups", {"name": "experts", "weight": 1, "scope": scope})
        assert code_of(again) == (409, "corrector-group-name-taken")
    admin.post(f"/v1/corrector-groups/{group['id']}/unregister")
    assert made(admin)["id"] != group["id"]


def test_one_of_many_at_once_gets_the_name(admin: Client) -> None:
    body = {"name": "x", "weight": 1, "scope": TENANT}
    with ThreadPoolExecutor(8) as pool:
        codes = sorted(pool.map(lambda _: admin.post("/v1/corrector-groups", body).status_code, range(8)))
    assert codes == [201] + [409] * 7


def test_only_an_admin_of_the_scope_sees_whom_a_group_is_restricted_to(
    admin: Client, client_of: ClientOf, engine: Engine, tenant: str
) -> None:
    a_project(engine, tenant, org_id="o")
    rule = {"principalIds": ["ann", "bob"]}
    groups = [made(admin, scope=scope, assertableBy=rule) for scope in (TENANT, PROJECT)]
    reader = client_of(grants=[Grant("project", "read", "p")])
    owner = client_of(grants=[Grant("org", "admin", "o")])
    for_tenant, for_project = (f"/v1/corrector-groups/{group['id']}" for group in groups)
    assert reader.get(for_project).json["assertableBy"] == {"principalCount": 2}
    assert reader.get(for_tenant).json["assertableBy"] == {"principalCount": 2}
    assert owner.get(for_tenant).json["assertableBy"] == {"principalCount": 2}
    assert owner.get(for_project).json["assertableBy"] == rule | {"principalCount": 2}
    shown = {row["id"]: row["assertableBy"] for row in owner.get("/v1/corrector-groups").json["data"]}
    assert [set(shown[group["id"]]) for group in groups] == [{"principalCount"}, {"principalIds", "principalCount"}]


def test_who_reads_and_who_changes(admin: Client, client_of: ClientOf, engine: Engine, tenant: str) -> None:
    a_project(engine, tenant)
    group = made(admin, scope=PROJECT)
    path = f"/v1/corrector-groups/{group['id']}"
    stranger, writer = client_of(), client_of(grants=[Grant("project", "write", "p")])
    owner = client_of(grants=[Grant("project", "admin", "p")])
    other = client_of(role="admin", tenant_id=f"{tenant}-other")

    for client in (stranger, other):
        assert code_of(client.get(path)) == (404, "corrector-group-not-found")
        assert code_of(client.patch(path, {"weight": 1})) == (404, "corrector-group-not-found")
        assert client.get("/v1/corrector-groups").json["data"] == []
        wanted = {"name": "n", "weight": 1, "scope": PROJECT}
        assert code_of(client.post("/v1/corrector-groups", wanted)) == (404, "project-not-found")
    assert writer.get(path).status_code == 200
    assert code_of(writer.patch(path, {"weight": 1})) == (403, "permission-denied")
    assert code_of(writer.post(f"{path}/unregister")) == (403, "permission-denied")
    made(owner, name="own", scope=AGENT)
    wanted = {"name": "own", "weight": 1, "scope": TENANT}
    assert code_of(owner.post("/v1/corrector-groups", wanted)) == (403, "permission-denied")
    assert owner.patch(path, {"weight": 9}).json["weight"] == 9


def test_a_list_is_filtered_and_paged(admin: Client, engine: Engine, tenant: str) -> None:
    a_project(engine, tenant)
    a_project(engine, tenant, "q")
    ids = [
        made(admin, name=f"g{n}", scope=scope)["id"]
        for n, scope in enumerate([TENANT, PROJECT, AGENT, PROJECT | {"projectId": "q"}])
    ]

    def listed(query: str) -> list[str]:
        return [row["id"] for row in admin.get(f"/v1/corrector-groups?{query}").json["data"]]

    assert listed("") == ids[::-1]
    assert listed("scopeKind=project") == [ids[3], ids[1]]
    assert listed("projectId=p") == [ids[2], ids[1]]
    assert listed("agentId=support%20/%20EU") == [ids[2]]
    assert listed("scopeKind=tenant&projectId=p") == []
    first = admin.get("/v1/corrector-groups?limit=3").json
    assert listed(f"limit=3&cursor={first['nextCursor']}") == ids[:1]
    assert code_of(admin.get(f"/v1/corrector-groups?projectId=p&cursor={first['nextCursor']}")) == (400, "bad-input")


@pytest.mark.parametrize(
    ("over", "path"),
    [
        ({"weight": True}, "/weight"),
        ({"weight": "1"}, "/weight"),
        ({"weight": -0.5}, "/weight"),
        ({"weight": 10**400}, "/weight"),
        ({"weight": None}, "/weight"),
        ({"name": ""}, "/name"),
        ({"name": "é" * 101}, "/name"),
        ({"name": "a\x00"}, "/name"),
        ({"name": "\ud800"}, "/name"),
        ({"scope": {"kind": "org"}}, "/scope/kind"),
        ({"scope": {"kind": "tenant", "projectId": "p"}}, "/scope/projectId"),
        ({"scope": {"kind": "agent", "projectId": "p"}}, "/scope/agentId"),
        ({"assertableBy": None}, "/assertableBy"),
        ({"assertableBy": {}}, "/assertableBy"),
        ({"assertableBy": {"principalIds": []}}, "/assertableBy/principalIds"),
        ({"assertableBy": {"principalIds": ["a"] * 101}}, "/assertableBy/principalIds"),
        ({"assertableBy": {"principalKinds": ["robot"]}}, "/assertableBy/principalKinds/0"),
    ],
)
def test_what_a_group_cannot_be(admin: Client, over: dict[str, Any], path: str) -> None:
    answer = admin.post("/v1/corrector-groups", {"name": "n", "weight": 1, "scope": TENANT} | over)
    assert code_of(answer) == (400, "bad-input")
    assert [issue["path"] for issue in answer.json["error"]["details"]["issues"]] == [path]


@pytest.mark.parametrize("weight", ["1e400", "1e99999999999999999999", "-1e-400000000000000000000", "NaN", "Infinity"])
def test_a_weight_that_is_no_finite_number(admin: Client, weight: str) -> None:
    data = f'{{"name": "n", "weight": {weight}, "scope": {{"kind": "tenant"}}}}'.encode()
    assert code_of(admin.post("/v1/corrector-groups", data=data)) == (400, "bad-input")


@pytest.mark.parametrize("weight", ["0", "-0.0", "1e-400", "1.7976931348623157e308", "0.1"])
def test_a_weight_is_shown_as_the_double_that_it_is(admin: Client, weight: str) -> None:
    data = f'{{"name": "n", "weight": {weight}, "scope": {{"kind": "tenant"}}}}'.encode()
    answer = admin.post("/v1/corrector-groups", data=data)
    assert answer.status_code == 201, answer.text
    shown = admin.get(f"/v1/corrector-groups/{answer.json['id']}").json["weight"]
    assert shown == float(weight)
    assert str(shown)[0] != "-"


def test_a_change_must_change_something(admin: Client) -> None:
    path = f"/v1/corrector-groups/{made(admin)['id']}"
    assert code_of(admin.patch(path, {})) == (400, "bad-input")
    assert code_of(admin.patch(path, {"name": "other"})) == (400, "unknown-field")
    assert code_of(admin.patch(path, {"description": None})) == (400, "bad-input")


def test_what_restricts_a_group_is_stored_and_read_back() -> None:
    text = '{"minReviewerRole": "senior", "principalKinds": ["user"], "principalIds": ["ann"]}'
    assert assertable_text(assertable_of(text)) == text
    assert assertable_of(None) is assertable_text(None) is None

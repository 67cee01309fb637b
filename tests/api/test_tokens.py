from __future__ import annotations

from app.domain.model import Grant
from tests.client import Client
from tests.conftest import ClientOf


def test_a_token_is_made_used_listed_and_revoked(admin: Client, client_of: ClientOf) -> None:
    made = admin.post(
        "/v1/tokens",
        {
            "name": "ci",
            "role": "member",
            "grants": [{"scopeKind": "project", "scopeId": "p", "permission": "read"}],
        },
    )
    assert made.status_code == 201, made.text
    token = made.json
    assert token["principal"] == {"kind": "service", "id": token["id"]}
    user = client_of()
    user.secret = token["token"]
    assert user.get("/v1/me").json == {
        "tenantId": admin.caller.tenant_id,
        "principal": {"kind": "service", "id": token["id"]},
        "role": "member",
        "grants": [{"scopeKind": "project", "scopeId": "p", "permission": "read"}],
    }
    shown = admin.get(f"/v1/tokens/{token['id']}").json
    assert "token" not in shown
    assert shown["id"] in [row["id"] for row in admin.get("/v1/tokens").json["data"]]
    assert admin.post(f"/v1/tokens/{token['id']}/revoke").status_code == 200
    answer = user.get("/v1/me")
    assert (answer.status_code, answer.json["error"]["code"]) == (401, "auth-revoked")
    assert answer.headers["WWW-Authenticate"] == "Bearer"


def test_pages_hold_every_token_once(admin: Client, client_of: ClientOf) -> None:
    for _ in range(6):
        client_of(grants=[Grant("tenant", "read")])
    seen, cursor = [], ""
    while True:
        answer = admin.get(f"/v1/tokens?limit=3{cursor}").json
        seen += [row["id"] for row in answer["data"]]
        if not answer["hasMore"]:
            break
        cursor = f"&cursor={answer['nextCursor']}"
    assert len(seen) == len(set(seen)) == 7


def test_a_kept_answer_with_a_secret_is_withheld(admin: Client) -> None:
    body = {"name": "x", "role": "member"}
    assert admin.post("/v1/tokens", body, headers={"Idempotency-Key": "k"}).status_code == 201
    again = admin.post("/v1/tokens", body, headers={"Idempotency-Key": "k"})
    assert (again.status_code, again.json["error"]["code"]) == (409, "idempotency-key-replay-withheld")
    assert again.json["error"]["details"]["status"] == 201


def test_issues_name_each_field(admin: Client) -> None:
    answer = admin.post("/v1/tokens", {"role": "x", "principal": {"kind": "user"}, "nope": 1})
    assert answer.status_code == 400
    error = answer.json["error"]
    assert error["code"] == "unknown-field"
    assert {issue["path"] for issue in error["details"]["issues"]} == {
        "/name",
        "/role",
        "/principal/id",
        "/nope",
    }


def test_unknown_routes_and_methods(admin: Client, anonymous: Client) -> None:
    assert admin.get("/v1/nope").json["error"]["code"] == "route-not-found"
    wrong = admin.put("/v1/me")
    assert (wrong.status_code, wrong.headers["Allow"]) == (405, "GET, HEAD")
    assert anonymous.get("/v1/nope").status_code == 401
    moved = admin.get("/v1/tokens/?limit=3")
    assert (moved.status_code, moved.headers["Location"]) == (308, "/v1/tokens?limit=3")

"""What every operation shares: envelope, paths, methods, headers, bodies, queries, time-outs."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import psycopg2
import pytest
from flask import Flask
from werkzeug.test import TestResponse

from app.api.cursors import Sealer
from app.api.edge import Edge
from app.api.limits import Limiter
from app.api.routes import Answer, Call, Routes, Service
from app.config import SettingError, Settings, read_settings
from app.domain.errors import BadInput
from app.store.engine import create_engine
from app.wsgi import create_app
from tests.client import Client
from tests.conftest import ClientOf

GROUPS = "/v1/corrector-groups"
NEW = {"name": "experts", "weight": 1, "scope": {"kind": "tenant"}}
ORIGIN = "https://shop.example"


def refusal(answer: TestResponse) -> tuple[int, str]:
    """Status and code of an error, once its envelope was looked at."""
    assert answer.content_type == "application/json"
    error = answer.json["error"]
    assert set(error) - {"details"} == {"code", "message", "requestId"}
    assert error["requestId"] == answer.headers["X-Request-Id"]
    return answer.status_code, error["code"]


@pytest.fixture
def app_with(settings: Settings) -> Any:
    return lambda **over: create_app(dataclasses.replace(settings, **over))


# Paths and methods


@pytest.mark.parametrize("path", ["/", "//", "/v1", "/v1/", "/v1//me", "/V1/me", "/v1/nope", "/nope", "/v1/me/x"])
def test_an_unknown_route(admin: Client, anonymous: Client, path: str) -> None:
    for method in ("GET", "POST", "OPTIONS", "FOO"):
        assert refusal(admin.send(method, path)) == (404, "route-not-found")
        assert refusal(anonymous.send(method, path)) == (401, "auth-missing")


def test_a_wrong_method_says_which_are_right(admin: Client, anonymous: Client) -> None:
    for method in ("PUT", "PATCH", "DELETE", "OPTIONS", "FOO"):
        answer = admin.send(method, GROUPS)
        assert refusal(answer) == (405, "method-not-allowed")
        assert answer.headers["Allow"] == "GET, HEAD, POST"
    assert refusal(anonymous.send("PUT", GROUPS)) == (401, "auth-missing")


def test_head_is_get_without_the_body(admin: Client, anonymous: Client) -> None:
    head = admin.send("HEAD", "/v1/me")
    assert (head.status_code, head.data) == (200, b"")
    assert head.headers["Content-Length"] == admin.get("/v1/me").headers["Content-Length"]
    assert (anonymous.send("HEAD", "/v1/me").status_code, anonymous.send("HEAD", "/v1/me").data) == (401, b"")


@pytest.mark.parametrize(
    ("sent", "canonical"),
    [
        ("/v1/me/", "/v1/me"),
        ("/v1/tokens//?limit=3&cursor=%2Fx", "/v1/tokens?limit=3&cursor=%2Fx"),
        ("/v1/agents/a%20b/", "/v1/agents/a%20b"),
        ("/v1/runs/", "/v1/runs"),
        ("/healthz/", "/healthz"),
    ],
)
def test_a_trailing_slash_is_sent_to_the_canonical_url(anonymous: Client, sent: str, canonical: str) -> None:
    for method in ("GET", "POST"):
        answer = anonymous.send(method, sent)
        assert (answer.status_code, answer.headers["Location"]) == (308, canonical)


@pytest.mark.parametrize("agent_id", ["a/b", "/x", "a//b", "..", "a?b#c", "é ü", "%2F", "x" * 256, "ß" * 256])
def test_an_agents_id_is_any_text(admin: Client, agent_id: str) -> None:
    path = "/v1/agents/" + "".join(f"%{byte:02X}" for byte in agent_id.encode())
    assert admin.put(path, {"name": "n"}).json["id"] == agent_id
    assert admin.get(path).json["id"] == agent_id


@pytest.mark.parametrize("sent", ["a%2Fb", "a%20b", "%00", "%FF", "%C3%A9", "x" * 129])
def test_an_id_that_no_run_or_project_can_have(admin: Client, sent: str) -> None:
    run = {"projectId": "p", "subject": {"kind": "agent", "id": "a", "version": "1"}, "status": "running", "input": 1}
    assert refusal(admin.put(f"/v1/runs/{sent}", run)) == (400, "bad-input")
    assert refusal(admin.put(f"/v1/projects/{sent}", {})) == (400, "bad-input")
    assert refusal(admin.get(f"/v1/runs/{sent}")) == (404, "run-not-found")
    assert refusal(admin.get(f"/v1/projects/{sent}")) == (404, "project-not-found")
    assert refusal(admin.get(f"/v1/projects/{sent}/running")) == (404, "project-not-found")


def test_a_wrong_method_below_an_id_is_told_from_an_unknown_id(admin: Client) -> None:
    answer = admin.get("/v1/projects/p/pins")
    assert refusal(answer) == (405, "method-not-allowed")
    assert answer.headers["Allow"] == "POST"


# Headers


def test_every_answer_is_kept_out_of_caches(admin: Client, anonymous: Client) -> None:
    for answer in (
        admin.get("/v1/me"),
        anonymous.get("/v1/me"),
        admin.get("/v1/nope"),
        admin.put("/v1/me"),
        anonymous.get("/v1/openapi.json"),
        admin.post(GROUPS, data=b"{"),
        admin.get("/v1/me/"),
    ):
        assert answer.headers["Cache-Control"] == "no-store"


@pytest.mark.parametrize("sent", ["x", "a-1_b:c/d~!", "x" * 128])
def test_a_sane_request_id_is_echoed(admin: Client, sent: str) -> None:
    assert admin.get("/v1/me", headers={"X-Request-Id": sent}).headers["X-Request-Id"] == sent
    assert admin.get("/v1/nope", headers={"X-Request-Id": sent}).json["error"]["requestId"] == sent


@pytest.mark.parametrize("sent", ["", "a b", "é", "a\tb", "x" * 129])
def test_another_is_replaced(admin: Client, sent: str) -> None:
    ids = {admin.get("/v1/me", headers={"X-Request-Id": sent}).headers["X-Request-Id"] for _ in range(2)}
    assert len(ids) == 2
    assert all(re.fullmatch(r"[0-9a-f-]{36}", made) for made in ids)


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER", "bEaReR "])
def test_the_scheme_is_taken_in_any_case(admin: Client, scheme: str) -> None:
    assert admin.get("/v1/me", headers={"Authorization": f"{scheme} {admin.secret}"}).status_code == 200


@pytest.mark.parametrize("header", ["", "Bearer", "Bearer ", "Basic {}", "{}", "Token {}", "Bearer {} x", "Bearer é"])
def test_anything_else_is_no_token(admin: Client, header: str) -> None:
    answer = admin.get("/v1/me", headers={"Authorization": header.format(admin.secret)})
    assert refusal(answer) == (401, "auth-missing")
    assert answer.headers["WWW-Authenticate"] == "Bearer"


def test_a_browser_is_let_in_from_the_configured_origin_alone(app_with: Any) -> None:
    client = Client(app_with(cors_origins=(ORIGIN,)), None, None)
    asked = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization"}
    ahead = client.send("OPTIONS", GROUPS, headers={"Origin": ORIGIN} | asked)
    assert (ahead.status_code, ahead.data) == (204, b"")
    assert ahead.headers["Access-Control-Allow-Origin"] == ORIGIN
    assert "POST" in ahead.headers["Access-Control-Allow-Methods"]
    assert "Authorization" in ahead.headers["Access-Control-Allow-Headers"]
    refused = client.get("/v1/me", headers={"Origin": ORIGIN})
    assert refusal(refused) == (401, "auth-missing")
    assert refused.headers["Access-Control-Allow-Origin"] == ORIGIN
    assert refused.headers["Vary"] == "Origin"
    stranger = client.send("OPTIONS", GROUPS, headers={"Origin": "https://evil.example"} | asked)
    assert refusal(stranger) == (401, "auth-missing")
    assert "Access-Control-Allow-Origin" not in stranger.headers
    assert stranger.headers["Vary"] == "Origin"
    assert client.get("/v1/openapi.json").headers["Vary"] == "Origin"


def test_a_browser_may_send_and_read_what_retrying_takes(app_with: Any) -> None:
    client = Client(app_with(cors_origins=(ORIGIN,)), None, None)
    ahead = client.send("OPTIONS", "/v1/corrections", headers={"Origin": ORIGIN})
    assert "Idempotency-Key" in ahead.headers["Access-Control-Allow-Headers"]
    assert "Retry-After" in ahead.headers["Access-Control-Expose-Headers"]
    assert "*" not in " ".join(ahead.headers.values())


@pytest.mark.parametrize("origins", ["*", "https://*.example", "shop.example", "https://shop.example/page", "null"])
def test_what_is_no_origin(origins: str) -> None:
    with pytest.raises(SettingError, match="CORRIGENDA_CORS_ORIGINS"):
        read_settings({"CORRIGENDA_CORS_ORIGINS": origins})


def test_origins_are_read_as_browsers_send_them() -> None:
    settings = read_settings({"CORRIGENDA_CORS_ORIGINS": " https://Shop.example/ , http://127.0.0.1:8420"})
    assert settings.cors_origins == ("https://shop.example", "http://127.0.0.1:8420")


# Bodies


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'"x"',
        b"{} x",
        b"{'a': 1}",
        b'{"weight": NaN}',
        b'{"weight": -Infinity}',
        b'{"weight": 01}',
        b'{"weight": ' + b"9" * 5000 + b"}",
        b'{"name": "\x00"}',
        b'{"name": "\xff"}',
        b'{"name": "\xed\xa0\x80"}',
        b'{"name": "\\ud800", "weight": 1, "scope": {"kind": "tenant"}}',
        b'{"name": "\\u0000", "weight": 1, "scope": {"kind": "tenant"}}',
        '{"name": "x"}'.encode("utf-16"),
    ],
)
def test_a_body_that_is_not_the_json_that_is_expected(admin: Client, body: bytes) -> None:
    assert refusal(admin.post(GROUPS, data=body)) == (400, "bad-input")


@pytest.mark.parametrize("key", ["nope", "\x00", "\ud800", "$ne", "a/b~c", ""])
def test_an_unknown_field_is_named(admin: Client, key: str) -> None:
    answer = admin.post(GROUPS, NEW | {key: 1})
    assert refusal(answer) == (400, "unknown-field")
    shown = key.replace("~", "~0").replace("/", "~1").replace("\ud800", "?")
    assert answer.json["error"]["details"]["issues"] == [{"path": f"/{shown}", "message": "is not a field here"}]


def test_nesting_is_taken_to_128_levels(admin: Client) -> None:
    def nested(levels: int) -> TestResponse:
        return admin.post(GROUPS, data=b'{"name": ' + b"[" * (levels - 1) + b"]" * (levels - 1) + b"}")

    assert nested(128).json["error"]["details"]["issues"][0]["path"] == "/name"
    refused = nested(129)
    assert refusal(refused) == (400, "bad-input")
    assert refused.json["error"]["details"] == {"maxDepth": 128}
    assert refusal(nested(200_000)) == (400, "bad-input")


def test_a_write_without_a_body_takes_none_or_an_empty_object(admin: Client) -> None:
    path = f"{GROUPS}/{admin.post(GROUPS, NEW).json['id']}/unregister"
    assert admin.post(path).status_code == 200
    assert admin.post(path, {}).status_code == 200
    assert refusal(admin.post(path, {"reason": "x"})) == (400, "unknown-field")
    assert refusal(admin.post(path, data=b"x")) == (400, "bad-input")


def test_a_body_of_just_the_limit_is_taken_and_one_byte_more_is_not(app_with: Any, admin: Client) -> None:
    client = Client(app_with(max_body_bytes=2048), admin.secret, admin.caller)
    body = b'{"name": "' + b"x" * (2048 - 12) + b'"}'
    assert refusal(client.post(GROUPS, data=body)) == (400, "bad-input")
    for secret in (admin.secret, None):
        client.secret = secret
        for method, path in (("POST", GROUPS), ("GET", "/v1/me"), ("POST", "/nope"), ("PUT", "/v1/me")):
            answer = client.send(method, path, data=body + b" ")
            assert refusal(answer) == (413, "request-too-large")
            assert answer.json["error"]["details"] == {"maxBytes": 2048}


# Queries


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ("x=1", "x"),
        ("x=", "x"),
        ("LIMIT=1", "LIMIT"),
        ("a%00=1", "a\x00"),
        ("limit=1&limit=2", "limit"),
        ("limit=0", "limit"),
        ("limit=101", "limit"),
        ("limit=1.0", "limit"),
        ("limit=%2B5", "limit"),
        ("limit=5%20", "limit"),
        ("limit=%D9%A5", "limit"),
        ("limit=1;x=2", "limit"),
        ("scopeKind=org", "scopeKind"),
        ("projectId=%00", "projectId"),
        ("projectId=%FF", "projectId"),
        ("projectId=%ED%A0%80", "projectId"),
        ("projectId=%zz", "projectId"),
        ("projectId=a%2", "projectId"),
        ("cursor=%00", "cursor"),
        ("cursor=abc", "cursor"),
    ],
)
def test_a_parameter_that_is_unknown_or_malformed_is_named(admin: Client, query: str, name: str) -> None:
    answer = admin.get(f"{GROUPS}?{query}")
    assert refusal(answer) == (400, "bad-input")
    assert [issue["path"] for issue in answer.json["error"]["details"]["issues"]] == [f"/query/{name}"]
    assert name in answer.json["error"]["message"]


@pytest.mark.parametrize("query", ["", "limit=", "limit", "limit=&limit=7", "&&", "projectId=&scopeKind="])
def test_an_empty_value_counts_as_absent(admin: Client, query: str) -> None:
    assert admin.get(f"{GROUPS}?{query}").status_code == 200


def test_a_write_takes_no_parameters(admin: Client) -> None:
    assert refusal(admin.post(f"{GROUPS}?dryRun=1", NEW)) == (400, "bad-input")


# Cursors


@pytest.fixture
def cursor(admin: Client) -> str:
    for name in "abc":
        admin.post(GROUPS, NEW | {"name": name})
    found: str = admin.get(f"{GROUPS}?limit=1").json["nextCursor"]
    return found


def test_a_cursor_goes_with_its_list_filters_and_caller(admin: Client, client_of: ClientOf, cursor: str) -> None:
    assert admin.get(f"{GROUPS}?limit=2&cursor={cursor}").status_code == 200
    changed = cursor[:-1] + ("A" if cursor[-1] != "A" else "B")
    for client, query in (
        (client_of(role="admin", user="ben"), f"{GROUPS}?cursor={cursor}"),
        (admin, f"{GROUPS}?scopeKind=tenant&cursor={cursor}"),
        (admin, f"/v1/tokens?cursor={cursor}"),
        (admin, f"{GROUPS}?cursor={changed}"),
        (admin, f"{GROUPS}?cursor={cursor[:-4]}"),
        (admin, f"{GROUPS}?cursor={cursor}%3D"),
        (admin, f"{GROUPS}?cursor=%C3%A9"),
    ):
        assert refusal(client.get(query)) == (400, "bad-input")


def test_a_cursor_is_good_for_a_day() -> None:
    now, position = 1_800_000_000.0, (datetime(2026, 1, 1, tzinfo=UTC), "id")
    sealer = Sealer(lambda: "secret", lambda: now)
    sealed = sealer.seal(position, "binding")
    now += 24 * 60 * 60
    assert sealer.open(sealed, "binding") == position
    now += 1
    with pytest.raises(BadInput):
        sealer.open(sealed, "binding")


# What goes wrong on our side


def crashing(settings: Settings) -> Flask:
    routes = Routes("crash")

    @routes.add("GET", "/v1/crash", answers={200: None}, public=True)
    def crash(call: Call) -> Answer:
        """Crash."""
        raise RuntimeError("SELECT secret FROM /etc/passwd")

    @routes.add("GET", "/v1/sql", answers={200: None}, public=True)
    def sql(call: Call) -> Answer:
        """Run what PostgreSQL can't."""
        return Answer(200, call.db.value("SELECT nothing FROM nowhere"))

    flask = Flask("crashing", static_folder=None)
    service = Service(create_engine(settings.database_url), settings, Sealer(lambda: "s"))
    Edge(service, Limiter("", "")).install(flask, routes.routes)
    return flask


@pytest.mark.parametrize("path", ["/v1/crash", "/v1/sql"])
def test_a_crash_tells_nothing(settings: Settings, path: str) -> None:
    answer = Client(crashing(settings), None, None).get(path)
    assert refusal(answer) == (500, "internal-error")
    assert not re.search("SELECT|passwd|nowhere|Traceback|Error:", answer.text)


@contextmanager
def locked(database_url: str, table: str) -> Iterator[None]:
    connection = psycopg2.connect(database_url)
    try:
        connection.cursor().execute(f"LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE")
        yield
    finally:
        connection.close()


def test_a_database_that_cannot_answer_in_time_is_busy(app_with: Any, database_url: str, admin: Client) -> None:
    client = Client(app_with(lock_timeout_ms=100), admin.secret, admin.caller)
    with locked(database_url, "corrector_groups"):
        for answer in (
            client.get(GROUPS),
            client.post(GROUPS, NEW),
            client.post(GROUPS, NEW, headers={"Idempotency-Key": "k"}),
        ):
            assert refusal(answer) == (503, "database-busy")
            assert int(answer.headers["Retry-After"]) > 0
    assert client.post(GROUPS, NEW, headers={"Idempotency-Key": "k"}).status_code == 201

"""Every operation, for every kind of caller. The expected answers are in ``matrix.py``."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from urllib.parse import quote

import pytest
from flask import Flask
from sqlalchemy import Engine
from werkzeug.test import TestResponse

from app.api.routes import Route
from app.domain.model import Grant, Permission
from app.services.issue_tokens import Wanted, issue_token
from app.transaction import transaction
from app.wsgi import routes
from tests.api.matrix import ROWS, Row, World
from tests.client import Client
from tests.conftest import ClientOf

ROUTES = {f"{route.method} {route.path}": route for route in routes()}


def said(answer: TestResponse) -> str:
    if answer.status_code < 400:
        return str(answer.status_code)
    if "message" in answer.json:  # OTLP's own way
        return f"{answer.status_code} {answer.json['message'].partition(':')[0]}"
    return f"{answer.status_code} {answer.json['error']['code']}"


def asked(client: Client, route: Route, row: Row, world: World) -> str:
    def value(match: re.Match[str]) -> str:
        given = row.path.get(match.group(1))
        return quote(given(world) if given else world.parameter(match.group(1)), safe="")

    path = re.sub(r"{(\w+)}", value, route.path) + (f"?{row.query}" if row.query else "")
    with client.send(route.method, path, row.body(world) if row.body else None) as answer:
        return said(answer)


def bad_tokens(flask: Flask, engine: Engine, tenant: str, admin: Client) -> dict[str, Client]:
    with transaction(engine) as tx:
        _, expired = issue_token(tx, tenant, Wanted("old", "admin", expires_at=datetime(2020, 1, 1, tzinfo=UTC)))
        revoked_caller, revoked = issue_token(tx, tenant, Wanted("gone", "admin"))
    assert admin.post(f"/v1/tokens/{revoked_caller.token_id}/revoke").status_code == 200
    secrets = {"no token": None, "unknown": "cgd_unknown", "revoked": revoked, "expired": expired}
    return {name: Client(flask, secret, None) for name, secret in secrets.items()}


def good_tokens(client_of: ClientOf, tenant: str, admin: Client) -> dict[str, Client]:
    def granted(permission: Permission) -> Client:
        return client_of(grants=[Grant("project", permission, "p")])

    return {
        "other": client_of(role="admin", tenant_id=f"{tenant}-other"),
        "nobody": client_of(),
        "read": granted("read"),
        "write": granted("write"),
        "admin": granted("admin"),
        "tenant": admin,
    }


def wanted_row(name: str, route: Route) -> str:
    body = ", body=lambda world: {...}" if route.body else ""
    return f'    "{name}": readers("404 {route.missing.code}", "{min(route.answers)}"{body}),'


def test_rows_and_routes_agree() -> None:
    without = [wanted_row(name, route) for name, route in ROUTES.items() if name not in ROWS]
    assert not without, (
        "Add to ROWS in tests/api/matrix.py, with what the contract says (everybody, readers, writers, admins and\n"
        "tenant_admins are short for the usual answers; Row gives each caller its own):\n"
        + "\n".join(without)
        + "\nand to World.parameter a value for each new path parameter."
    )
    assert set(ROWS) <= set(ROUTES), f"Rows without a route: {set(ROWS) - set(ROUTES)}"


@pytest.mark.parametrize("name", [name for name in ROUTES if name in ROWS])
def test_each_caller_gets_what_the_contract_says(
    name: str, flask_app: Flask, client_of: ClientOf, engine: Engine, tenant: str, admin: Client
) -> None:
    route, row, world = ROUTES[name], ROWS[name], World(engine, tenant, admin)
    callers = good_tokens(client_of, tenant, admin)
    assert {who: asked(client, route, row, world) for who, client in callers.items()} == row.expected()
    refused = {
        "no token": "401 auth-missing",
        "unknown": "401 auth-missing",
        "revoked": "401 auth-revoked",
        "expired": "401 auth-expired",
    }
    expected = dict.fromkeys(refused, row.other) if route.public else refused
    token = {"runId": world.run_id, "participantId": "visitor", "ttlSeconds": 60}
    visitor = Client(flask_app, admin.post("/v1/participant-tokens", token).json["token"], None)
    assert asked(visitor, route, row, world) == (row.other if route.public else row.participant)
    bad = bad_tokens(flask_app, engine, tenant, admin)
    assert {who: asked(client, route, row, world) for who, client in bad.items()} == expected

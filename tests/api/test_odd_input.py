"""Every operation, with every part of its input made odd in turn: always an answer that it declares, never a 500."""

from __future__ import annotations

import re
from collections.abc import Iterator
from copy import deepcopy
from typing import Any
from urllib.parse import quote

import pytest
from sqlalchemy import Engine

from app.api.routes import Route
from app.api.schemas.examples import EXAMPLES
from app.wsgi import routes
from tests.api.matrix import ROWS, World
from tests.client import Client

ROUTES = {f"{route.method} {route.path}": route for route in routes() if not route.public}
ODD: tuple[Any, ...] = (
    None,
    True,
    0,
    -1,
    1.5,
    10**30,
    float("1e300"),
    "",
    " ",
    "\x00",
    "\ud800",
    "x" * 5000,
    "2026-13-45T99:99:99Z",
    "0001-01-01T00:00:00+23:59",
    [],
    [None],
    [[]],
    {},
    {"": ""},
    {"$ne": 1, "\x00": "\ud800", "__proto__": {}},
)
ODD_TEXTS = tuple(value for value in ODD if isinstance(value, str) and "\ud800" not in value)
ODD_PARAMETERS = (
    *ODD_TEXTS, "-1", "0", "1e9", "99999999999999999999", "none", "a,b,,c", "%", "'; --", "{}", "9999-12-31T23:59:59Z"
)  # fmt: skip


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in inner:
        yield from places(part, (*path, key))


def replaced(value: Any, path: tuple[Any, ...], odd: Any) -> Any:
    if not path:
        return odd
    copy = deepcopy(value)
    target = copy
    for key in path[:-1]:
        target = target[key]
    target[path[-1]] = odd
    return copy


def url(route: Route, world: World, given: dict[str, str] | None = None) -> str:
    def value(match: re.Match[str]) -> str:
        name = match.group(1)
        return quote((given or {}).get(name) or world.parameter(name), safe="")

    return re.sub(r"{(\w+)}", value, route.path)


def sane(client: Client, method: str, path: str, **more: Any) -> None:
    with client.send(method, path, **more) as answer:
        assert answer.status_code < 500, (method, path, more, answer.text)


@pytest.fixture
def world(engine: Engine, tenant: str, admin: Client) -> World:
    return World(engine, tenant, admin)


@pytest.mark.parametrize("name", [name for name, route in ROUTES.items() if type(route.body) in EXAMPLES])
def test_bodies(name: str, world: World, admin: Client) -> None:
    route = ROUTES[name]
    row = ROWS[name]
    for body in (EXAMPLES[type(route.body)], row.body(world) if row.body else {}):
        for place in places(body):
            for odd in ODD:
                sane(admin, route.method, url(route, world), body=replaced(body, place, odd))


@pytest.mark.parametrize("name", [name for name, route in ROUTES.items() if route.query is not None])
def test_parameters(name: str, world: World, admin: Client) -> None:
    route = ROUTES[name]
    assert route.query is not None
    for parameter in [field.data_key for field in route.query.fields.values()]:
        for odd in ODD_PARAMETERS:
            query = f"{ROWS[name].query}&{parameter}={quote(odd)}"
            sane(admin, route.method, f"{url(route, world)}?{query}")


@pytest.mark.parametrize("name", [name for name in ROUTES if "{" in name])
def test_ids(name: str, world: World, admin: Client) -> None:
    route, row = ROUTES[name], ROWS[name]
    for parameter in re.findall(r"{(\w+)}", route.path):
        for odd in (*ODD_TEXTS, "a/b", "..", "%00", "é", "0" * 36):
            body = row.body(world) if row.body else None
            sane(admin, route.method, url(route, world, {parameter: odd}), body=body)

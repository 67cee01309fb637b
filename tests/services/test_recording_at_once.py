"""Many recordings at the same moment, and how often one asks the database."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg2.extensions
import pytest
import sqlalchemy.event
import sqlalchemy.pool
from sqlalchemy import Engine

from app.config import Settings
from app.store.engine import reading
from app.wsgi import create_app
from tests.client import Client
from tests.factories import a_run

BODY = {"decisions": "wrong", "shouldCall": [{"tool": "t"}]}


def at_once(client: Client, body: dict[str, Any], headers: dict[str, str], count: int = 50) -> list[Any]:
    flask = client.flask
    with ThreadPoolExecutor(count) as pool:
        sends = [
            pool.submit(Client(flask, client.secret, client.caller).post, "/v1/corrections", body, headers=headers)
            for _ in range(count)
        ]
        return [send.result() for send in sends]


def chain(engine: Engine, tenant: str, run: str) -> list[str]:
    """The corrections of ``run`` from the first to the live one, each ended by the next."""
    with reading(engine) as db:
        rows = db.rows(
            "SELECT id, superseded_by, created_at, unregistered_at FROM corrections"
            " WHERE tenant_id = %s AND run_id = %s",
            (tenant, run),
        )
    ended = {row[1] for row in rows}
    by_id = {row[0]: row for row in rows}
    (here,) = [row[0] for row in rows if row[0] not in ended]
    links = [here]
    while (after := by_id[links[-1]][1]) is not None:
        assert by_id[links[-1]][3] == by_id[after][2] >= by_id[links[-1]][2]
        links.append(after)
    assert len(links) == len(rows)
    return links


def test_50_at_once_by_one_caller_leave_one_live_and_one_chain(admin: Client, engine: Engine, tenant: str) -> None:
    run = a_run(engine, tenant)
    answers = at_once(admin, {"runId": run, **BODY}, {})
    assert {answer.status_code for answer in answers} == {201}
    links = chain(engine, tenant, run)
    assert {answer.json["id"] for answer in answers} == set(links)
    assert [row["id"] for row in admin.get("/v1/corrections").json["data"]] == links[-1:]


def test_50_at_once_with_one_key_are_one_correction(admin: Client, engine: Engine, tenant: str) -> None:
    run = a_run(engine, tenant)
    answers = at_once(admin, {"runId": run, **BODY}, {"Idempotency-Key": "k"})
    taken = [answer for answer in answers if answer.status_code == 201]
    assert len({answer.data for answer in taken}) == 1
    assert len(chain(engine, tenant, run)) == 1
    for answer in answers:
        if answer.status_code != 201:
            assert (answer.status_code, answer.json["error"]["code"]) == (409, "idempotency-key-in-flight")
            assert answer.headers["Retry-After"] == "5"


class CountingCursor(psycopg2.extensions.cursor):
    """Each ``execute`` is one round trip: psycopg2 sends statements as they are, and BEGIN with the first."""

    asked: list[str] = []  # noqa: RUF012

    def execute(self, query: Any, vars: Any = None) -> None:
        CountingCursor.asked.append(str(query))
        super().execute(query, vars)


@pytest.fixture
def counted(settings: Settings, admin: Client) -> Iterator[Client]:
    """A client of a service of its own whose connections count what they are asked."""

    def count(connection: Any, _record: Any) -> None:
        connection.cursor_factory = CountingCursor

    sqlalchemy.event.listen(sqlalchemy.pool.Pool, "connect", count)
    try:
        client = Client(create_app(settings), admin.secret, admin.caller)
        client.get("/v1/me")
        CountingCursor.asked.clear()
        yield client
    finally:
        sqlalchemy.event.remove(sqlalchemy.pool.Pool, "connect", count)


@pytest.mark.parametrize(("headers", "round_trips"), [({}, 4), ({"Idempotency-Key": "k"}, 6)])
def test_a_recording_asks_so_often(
    counted: Client, engine: Engine, tenant: str, headers: dict[str, str], round_trips: int
) -> None:
    body = {
        "runId": a_run(engine, tenant, output={"m": [1]}),
        "items": [{"key": "k", "pointer": "/m/0", "verdict": "wrong"}],
    }
    for _ in range(2):  # The second one ends the first; a key of its own makes it a first use too.
        CountingCursor.asked.clear()
        assert counted.post("/v1/corrections", body, headers=headers).status_code == 201
        assert len(CountingCursor.asked) == round_trips, CountingCursor.asked
        headers = {name: f"{value}2" for name, value in headers.items()}


def test_a_page_asks_twice(counted: Client) -> None:
    assert counted.get("/v1/corrections?status=open,fixed&agentId=a").status_code == 200
    assert len(CountingCursor.asked) == 2, CountingCursor.asked

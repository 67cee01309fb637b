"""GET /v1/corrections: pages, cursors, and any mix of filters."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import Engine

from app.domain.model import Grant
from tests.api.corrected import RIGHT, WRONG_ANSWER, WRONG_CALL, first_page, paged, put_into, record
from tests.client import Client
from tests.conftest import ClientOf
from tests.factories import a_run


def recorded_id(client: Client, run: str, **said: Any) -> str:
    return str(record(client, run, **said)["id"])


def test_pages_hold_every_row_once_while_rows_come_and_go(
    admin: Client, client_of: ClientOf, engine: Engine, tenant: str
) -> None:
    ids = [recorded_id(admin, a_run(engine, tenant, project_id="pq"[n % 2]), **WRONG_ANSWER) for n in range(11)]
    for correction in ids:  # All in one moment: only the id tells them apart.
        put_into(engine, tenant, correction, created_at="2026-01-31T12:00:00Z")
    both = client_of(grants=[Grant("project", "read", "p"), Grant("project", "read", "q")])
    for client in (admin, both):
        assert paged(client, "", 3) == ids[::-1]
        assert paged(client, "status=not-fixed&sortedTo=improve,owner", 4) == ids[::-1]
        assert paged(client, "agentId=support", 11) == ids[::-1]
    first = admin.get("/v1/corrections?limit=4").json
    recorded_id(admin, a_run(engine, tenant), **RIGHT)
    put_into(engine, tenant, ids[10], status="removed", unregistered_at="2026-02-01T00:00:00Z")
    put_into(engine, tenant, ids[7], status="removed", unregistered_at="2026-02-01T00:00:00Z")
    put_into(engine, tenant, ids[4], status="wont-fix")
    rest = admin.get(f"/v1/corrections?limit=100&cursor={first['nextCursor']}").json
    assert [row["id"] for row in rest["data"]] == ids[6::-1]


def test_a_cursor_is_of_its_list_filters_and_caller(
    admin: Client, client_of: ClientOf, engine: Engine, tenant: str
) -> None:
    for _ in range(3):
        recorded_id(admin, a_run(engine, tenant), **WRONG_ANSWER)
    cursor = admin.get("/v1/corrections?status=open&limit=1").json["nextCursor"]
    assert len(first_page(admin, f"status=open&limit=2&cursor={cursor}")) == 2
    for client, query in (
        (admin, f"cursor={cursor}"),
        (admin, f"status=open&agentId=support&cursor={cursor}"),
        (client_of(role="admin", user="ben"), f"status=open&cursor={cursor}"),
        (admin, f"status=open&cursor={cursor[:-2]}"),
        (admin, f"status=open&cursor={cursor}A"),
    ):
        answer = client.get(f"/v1/corrections?{query}")
        assert (answer.status_code, answer.json["error"]["code"]) == (400, "bad-input")


def test_a_cursor_takes_the_same_filter_in_another_order(admin: Client, engine: Engine, tenant: str) -> None:
    ids = [recorded_id(admin, a_run(engine, tenant), **WRONG_ANSWER) for _ in range(2)]
    first = admin.get("/v1/corrections?status=open,fixed&sortedTo=owner,improve&limit=1").json
    same = "status=fixed&status=open&sortedTo=improve,owner,improve"
    rest = admin.get(f"/v1/corrections?{same}&cursor={first['nextCursor']}").json
    assert [row["id"] for row in first["data"] + rest["data"]] == ids[::-1]


STATUSES = ["open", "being-fixed", "fixed", "wont-fix"]


@pytest.fixture
def corpus(admin: Client, engine: Engine, tenant: str) -> list[dict[str, Any]]:
    """24 corrections over two projects, three versions and four statuses, as the list shows them, newest first."""
    kinds = itertools.cycle([RIGHT, WRONG_ANSWER, {**RIGHT, "participantId": "u"}, WRONG_ANSWER, WRONG_CALL])
    for n in range(24):
        run = a_run(engine, tenant, project_id="pq"[n % 2], subject_version="123"[n % 3])
        correction = recorded_id(admin, run, **next(kinds))
        if n % 3 == 0:
            put_into(engine, tenant, correction, status=STATUSES[n % 4], sorted_to=None)
    rows: list[dict[str, Any]] = admin.get("/v1/corrections?limit=100").json["data"]
    assert len(rows) == 24
    return rows


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(data=st.data())
def test_any_mix_of_filters_is_what_a_plain_reading_of_them_says(
    data: st.DataObject, admin: Client, corpus: list[dict[str, Any]], client_of: ClientOf
) -> None:
    statuses = data.draw(st.lists(st.sampled_from(["not-fixed", "with-owner", *STATUSES]), max_size=3))
    queues = data.draw(st.lists(st.sampled_from(["none", "improve", "owner", "developer"]), max_size=2))
    version = data.draw(st.sampled_from([None, "1", "2"]))
    project = data.draw(st.sampled_from([None, "p", "q"]))
    since, until = (data.draw(st.sampled_from([None, *corpus[::5]])) for _ in range(2))
    made_from = data.draw(st.sampled_from([None, "end-users", "experts", "all"]))
    readable = data.draw(st.sampled_from([None, ["p"], ["p", "q"]]))

    def fits(row: dict[str, Any]) -> bool:
        named = {s for word in statuses for s in ([*STATUSES[:2], "with-owner"] if word == "not-fixed" else [word])}
        return (
            (not named or row["status"] in named)
            and (not queues or row.get("sortedTo", "none") in queues)
            and (version is None or row["subject"]["version"] == version)
            and (project is None or row["projectId"] == project)
            and (since is None or row["createdAt"] >= since["createdAt"])
            and (until is None or row["createdAt"] < until["createdAt"])
            and {"end-users": "participantId" in row, "experts": False}.get(made_from or "", True)
            and (readable is None or row["projectId"] in readable)
        )

    query = [("status", ",".join(statuses)), ("sortedTo", ",".join(queues)), ("from", made_from)]
    query += [("agentId", "support"), ("agentVersion", version)] if version else []
    query += [("scopeKind", "project"), ("scopeId", project)] if project else []
    query += [("since", since and since["createdAt"]), ("until", until and until["createdAt"])]
    client = admin if readable is None else client_of(grants=[Grant("project", "read", p) for p in readable])
    found = paged(client, "&".join(f"{name}={value}" for name, value in query if value), 7)
    assert found == [row["id"] for row in corpus if fits(row)]

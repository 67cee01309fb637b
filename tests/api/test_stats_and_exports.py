"""GET /v1/corrections/stats and /export: of just the rows that the list shows, under every filter and permission."""

from __future__ import annotations

import csv
import io
import json
from datetime import UTC, datetime, timedelta
from itertools import combinations
from typing import Any
from urllib.parse import quote

import pytest
from sqlalchemy import Engine

from app.api.schemas.corrections import CorrectionShape
from app.domain import spreadsheet
from app.domain.model import Grant
from app.transaction import transaction
from tests.client import Client
from tests.conftest import ClientOf
from tests.factories import a_project, a_run

WRONG_CALL: dict[str, Any] = {"decisions": "wrong", "shouldCall": [{"tool": "refund", "args": {"n": 10**30}}]}
WRONG_ANSWER = {"answer": "wrong", "shouldSay": "=1+1"}
RIGHT = {"decisions": "right"}


def record(client: Client, run: str, **said: Any) -> dict[str, Any]:
    answer = client.post("/v1/corrections", {"runId": run, **said})
    assert answer.status_code == 201, answer.text
    body: dict[str, Any] = answer.json
    return body


def change(engine: Engine, tenant: str, correction: dict[str, Any], sets: str, **values: Any) -> None:
    with transaction(engine) as tx:
        tx.run(
            f"UPDATE corrections SET {sets} WHERE tenant_id = %(tenant)s AND id = %(id)s",
            {"tenant": tenant, "id": correction["id"], **values},
        )


def happened(engine: Engine, tenant: str, correction: dict[str, Any], kind: str, after: timedelta, how: str) -> None:
    """A history row of ``correction``, so long after it was made."""
    with transaction(engine) as tx:
        tx.run(
            "INSERT INTO correction_history (tenant_id, correction_id, at, kind, how)"
            " SELECT tenant_id, id, created_at + %s, %s, %s FROM corrections WHERE tenant_id = %s AND id = %s",
            (after, kind, how, tenant, correction["id"]),
        )


def listed(client: Client, query: str = "") -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    cursor = ""
    while True:
        answer = client.get(f"/v1/corrections?limit=2{query}{cursor}")
        assert answer.status_code == 200, answer.text
        rows += answer.json["data"]
        if not answer.json["hasMore"]:
            return rows
        cursor = f"&cursor={answer.json['nextCursor']}"


def stats(client: Client, query: str = "") -> dict[str, Any]:
    answer = client.get(f"/v1/corrections/stats?{query}")
    assert answer.status_code == 200, answer.text
    body: dict[str, Any] = answer.json
    return body


def exported(client: Client, query: str = "") -> list[dict[str, Any]]:
    answer = client.get(f"/v1/corrections/export?format=jsonl{query}")
    assert answer.status_code == 200, answer.text
    return [json.loads(line) for line in answer.text.splitlines()]


@pytest.fixture
def many(admin: Client, client_of: ClientOf, engine: Engine, tenant: str) -> str:
    """Corrections of all sorts; gives the id of the corrector group of some."""
    a_project(engine, tenant, "of-org", "org")
    group = admin.post(
        "/v1/corrector-groups",
        {"name": "g", "weight": 1, "scope": {"kind": "tenant"}, "assertableBy": {"principalKinds": ["user"]}},
    ).json["id"]
    other = client_of(role="admin")
    runs = [
        a_run(engine, tenant),
        a_run(engine, tenant, subject_version="2.0.0"),
        a_run(engine, tenant, project_id="q", subject_id="a:b"),
        a_run(engine, tenant, project_id="of-org", subject_kind="flow", subject_id="intake"),
    ]
    for run in runs:
        record(admin, run, **WRONG_CALL)
        record(admin, run, correctorGroupId=group, **WRONG_ANSWER)
        record(admin, run, participantId="u3", **WRONG_CALL)
        record(other, run, **RIGHT)
        record(other, run, participantId="u1", answer="wrong", why="rude")
    gone = record(admin, runs[0], participantId="u2", **RIGHT)
    change(engine, tenant, gone, "status = 'removed', unregistered_at = clock_timestamp()")
    return str(group)


FILTERS = (
    "",
    "&status=open",
    "&status=removed",
    "&status=not-fixed,removed",
    "&status=with-owner&sortedTo=owner",
    "&sortedTo=none",
    "&sortedTo=none,improve",
    "&agentId=support",
    "&agentId=support&agentVersion=2.0.0",
    "&flowId=intake",
    "&from=experts",
    "&from=end-users",
    "&madeBy=me",
    "&participantId=u1",
    "&scopeKind=project&scopeId=q",
    "&scopeKind=org&scopeId=org",
    "&scopeKind=tenant&inherit=true",
    "&since=2020-01-01T00:00:00Z&until=2100-01-01T00:00:00Z",
    "&until=2020-01-01T00:00:00Z",
)
GROUPS = ("day", "status", "sortedTo", "subject", "version", "correctorGroup")


def value(row: dict[str, Any], name: str) -> str:
    shown = {
        "day": row["createdAt"][:10],
        "status": row["status"],
        "sortedTo": row.get("sortedTo", "none"),
        "subject": f"{row['subject']['kind']}:{row['subject']['id']}",
        "version": row["subject"]["version"],
        "correctorGroup": row.get("correctorGroupId", "none"),
    }
    return str(shown[name])


@pytest.mark.parametrize("who", ["admin", "project", "org", "nobody"])
def test_counts_and_exports_are_of_the_rows_of_the_list(
    admin: Client, client_of: ClientOf, many: str, who: str
) -> None:
    grants = {"project": [Grant("project", "read", "p")], "org": [Grant("org", "admin", "org")], "nobody": []}
    client = admin if who == "admin" else client_of(grants=grants[who])
    for query in (*FILTERS, f"&correctorGroupId={many}"):
        rows = listed(client, query)
        assert exported(client, query) == rows
        assert stats(client, query)["total"] == len(rows)
        assert stats(client, query)["groups"] == []
    for names in [*combinations(GROUPS, 1), *combinations(GROUPS, 2)]:
        rows = listed(client)
        found = stats(client, f"groupBy={','.join(names)}")["groups"]
        expected = dict.fromkeys(sorted({tuple(value(row, name) for name in names) for row in rows}), 0)
        for row in rows:
            expected[tuple(value(row, name) for name in names)] += 1
        assert [(tuple(group[name] for name in names), group["count"]) for group in found] == list(expected.items())
    assert len(listed(admin)) == 16


def test_group_by_may_be_repeated_or_a_list(admin: Client, many: str) -> None:
    groups = stats(admin, "groupBy=status&groupBy=day")["groups"]
    assert groups == stats(admin, "groupBy=status,%20day,status")["groups"]
    assert set(groups[0]) == {"status", "day", "count"}


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ("groupBy=day,status,version", "groupBy"),
        ("groupBy=nope", "groupBy"),
        ("timezone=Nowhere/City", "timezone"),
        ("timezone=europe/berlin", "timezone"),
        ("timezone=../UTC", "timezone"),
        ("timezone=localtime", "timezone"),
        ("limit=3", "limit"),
        ("cursor=x", "cursor"),
        ("status=nope", "status"),
        ("agentVersion=1", "agentVersion"),
    ],
)
def test_a_bad_parameter_is_named(admin: Client, query: str, name: str) -> None:
    answer = admin.get(f"/v1/corrections/stats?{query}")
    assert (answer.status_code, answer.json["error"]["code"]) == (400, "bad-input")
    assert answer.json["error"]["details"]["issues"][0]["path"] == f"/query/{name}"
    if name not in ("groupBy", "timezone"):
        assert admin.get(f"/v1/corrections/export?{query}").status_code == 400
    assert admin.get("/v1/corrections/stats?scopeKind=org").json["error"]["code"] == "scope-invalid"


@pytest.mark.parametrize(
    ("zone", "created", "day"),
    [
        ("UTC", "2026-03-28T23:30:00Z", "2026-03-28"),
        ("Europe/Berlin", "2026-03-28T22:59:59.999Z", "2026-03-28"),
        ("Europe/Berlin", "2026-03-28T23:00:00Z", "2026-03-29"),
        ("Europe/Berlin", "2026-03-29T21:59:59.999Z", "2026-03-29"),
        ("Europe/Berlin", "2026-03-29T22:00:00Z", "2026-03-30"),
        ("Europe/Berlin", "2026-10-24T22:00:00Z", "2026-10-25"),
        ("Europe/Berlin", "2026-10-25T22:59:59.999Z", "2026-10-25"),
        ("Europe/Berlin", "2026-10-25T23:00:00Z", "2026-10-26"),
        ("CET", "2026-07-01T22:30:00Z", "2026-07-02"),
        ("America/New_York", "2026-11-02T04:59:59.999Z", "2026-11-01"),
        ("America/New_York", "2026-11-02T05:00:00Z", "2026-11-02"),
        ("Asia/Kathmandu", "2026-01-01T18:15:00Z", "2026-01-02"),
        ("Pacific/Kiritimati", "2026-01-01T10:00:00Z", "2026-01-02"),
    ],
)
def test_days_are_of_the_zone(admin: Client, engine: Engine, tenant: str, zone: str, created: str, day: str) -> None:
    run = a_run(engine, tenant)
    change(engine, tenant, record(admin, run, **RIGHT), "created_at = %(at)s", at=created)
    assert stats(admin, f"groupBy=day&timezone={quote(zone)}")["groups"] == [{"day": day, "count": 1}]


def test_a_correction_of_now_is_of_today_wherever_that_is(admin: Client, engine: Engine, tenant: str) -> None:
    assert stats(admin, "groupBy=day&timezone=Pacific/Kiritimati")["groups"] == []
    record(admin, a_run(engine, tenant), **RIGHT)
    days = {(datetime.now(UTC) + timedelta(hours=14, seconds=-s)).date().isoformat() for s in (0, 60)}
    assert stats(admin, "groupBy=day&timezone=Pacific/Kiritimati")["groups"][0]["day"] in days


def test_figures_of_none_are_absent(admin: Client) -> None:
    assert stats(admin) == {"total": 0, "groups": []}


def test_how_long_until_fixed_and_how_lasting(admin: Client, engine: Engine, tenant: str) -> None:
    runs = [a_run(engine, tenant) for _ in range(6)]
    fixed, again, slow, _, right, back = [
        record(admin, run, **(RIGHT if index >= 4 else WRONG_CALL)) for index, run in enumerate(runs)
    ]
    hour = timedelta(hours=1)
    happened(engine, tenant, fixed, "fixed", hour, "latest")
    happened(engine, tenant, again, "fixed", 2 * hour, "pin")
    happened(engine, tenant, again, "reopened", 3 * hour, "latest")
    happened(engine, tenant, again, "fixed", 4 * hour, "latest")
    happened(engine, tenant, slow, "fixed", 10 * hour, "latest")
    happened(engine, tenant, back, "reopened", hour, "latest")
    for correction in (fixed, again, slow):
        change(engine, tenant, correction, "status = 'fixed'")
    found = stats(admin)
    assert found["medianSecondsToFix"] == pytest.approx(2 * 3600)
    assert found["reopenRate"] == pytest.approx(2 / 5)
    happened(engine, tenant, back, "fixed", 3 * hour, "latest")
    assert stats(admin)["medianSecondsToFix"] == pytest.approx(2.5 * 3600)
    assert stats(admin, f"runId={right['runId']}") == {"total": 1, "groups": [], "reopenRate": 0}
    assert set(stats(admin, "status=with-owner")) == {"total", "groups", "medianSecondsOpen"}


def test_how_long_they_have_been_open(admin: Client, engine: Engine, tenant: str) -> None:
    ages = {"open": 60, "being-fixed": 300, "with-owner": 120, "wont-fix": 9000, "fixed": 9000}
    for status, seconds in ages.items():
        correction = record(admin, a_run(engine, tenant), **WRONG_CALL)
        sorted_to = "owner" if status == "with-owner" else "improve"
        change(
            engine,
            tenant,
            correction,
            "status = %(status)s, sorted_to = %(to)s, created_at = clock_timestamp() - %(age)s",
            status=status,
            to=sorted_to,
            age=timedelta(seconds=seconds),
        )
    assert stats(admin)["medianSecondsOpen"] == pytest.approx(120, abs=30)
    assert "medianSecondsOpen" not in stats(admin, "status=fixed,wont-fix")


def test_csv_has_every_field_and_no_formula(admin: Client, many: str) -> None:
    answer = admin.get("/v1/corrections/export?format=csv")
    assert answer.content_type == "text/csv; charset=utf-8; header=present"
    assert answer.headers["Content-Disposition"] == 'attachment; filename="corrections.csv"'
    rows = list(csv.DictReader(io.StringIO(answer.text, newline="")))
    shown = listed(admin)
    assert len(rows) == len(shown)
    for row, correction in zip(rows, shown, strict=True):
        assert set(correction) <= set(row)
        for name, cell in row.items():
            expected = correction.get(name, "")
            if name == "shouldSay" and expected:
                expected = "'=1+1"
            assert (cell if isinstance(expected, str) else json.loads(cell)) == expected


def test_jsonl_is_exact(admin: Client, many: str) -> None:
    answer = admin.get("/v1/corrections/export")
    assert answer.content_type == "application/x-ndjson"
    assert answer.headers["Content-Disposition"] == 'attachment; filename="corrections.jsonl"'
    assert str(10**30) in answer.text
    page = admin.get("/v1/corrections?limit=100").text
    assert page == f'{{"data":[{",".join(answer.text.splitlines())}],"hasMore":false}}'


def test_an_export_of_none(admin: Client) -> None:
    assert admin.get("/v1/corrections/export").data == b""
    assert admin.get("/v1/corrections/export?format=csv").text == spreadsheet.header()
    assert admin.get("/v1/corrections/export?format=xml").json["error"]["code"] == "bad-input"
    assert admin.get("/v1/corrections/export?format=csv&format=jsonl").json["error"]["code"] == "bad-input"


def test_the_columns_are_the_fields_of_a_correction() -> None:
    assert tuple(field.data_key for field in CorrectionShape().fields.values()) == spreadsheet.COLUMNS

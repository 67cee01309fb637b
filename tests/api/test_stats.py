"""GET /v1/corrections/stats: groups, days of a time zone, how fast and how lasting."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from urllib.parse import quote

import pytest
from sqlalchemy import Engine

from tests.api.corrected import RIGHT, WRONG_CALL, change, happened, many, record, stats
from tests.client import Client
from tests.factories import a_run

__all__ = ["many"]


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

from __future__ import annotations

import dataclasses

import pytest
from prometheus_client.parser import text_string_to_metric_families
from sqlalchemy import Engine

from app.config import Settings
from app.wsgi import create_app
from tests.client import Client
from tests.conftest import new_database
from tests.lifecycle import Project

NOWHERE = "postgresql://127.0.0.1:9/none"


@pytest.fixture
def without_database(settings: Settings) -> Client:
    return Client(create_app(dataclasses.replace(settings, database_url=NOWHERE)), "cgd_x", None)


def test_healthy_and_ready(anonymous: Client) -> None:
    assert anonymous.get("/healthz").json == {"status": "alive"}
    ready = anonymous.get("/readyz").json
    assert ready["status"] == "ready"
    assert ready["database"]["revision"] == ready["database"]["needs"]
    assert ready["broker"] == {"state": "not-configured"}


def test_a_broker_that_is_away_is_said_and_not_required(settings: Settings) -> None:
    client = Client(create_app(dataclasses.replace(settings, redis_url="redis://127.0.0.1:9/0")), None, None)
    answer = client.get("/readyz")
    assert (answer.status_code, answer.json["broker"]) == (200, {"state": "unreachable"})


def test_an_empty_database_is_not_ready(server_url: str, settings: Settings) -> None:
    flask = create_app(dataclasses.replace(settings, database_url=new_database(server_url)))
    answer = Client(flask, None, None).get("/readyz")
    assert (answer.status_code, answer.json["error"]["code"]) == (503, "not-ready")
    assert answer.json["error"]["details"]["database"]["state"] == "not-migrated"


def test_without_a_database_it_lives_and_says_so(without_database: Client) -> None:
    assert without_database.get("/healthz").status_code == 200
    ready = without_database.get("/readyz")
    assert (ready.status_code, ready.json["error"]["code"]) == (503, "not-ready")
    assert int(ready.headers["Retry-After"]) > 0
    read = without_database.get("/v1/me")
    assert (read.status_code, read.json["error"]["code"]) == (503, "database-busy")
    assert int(read.headers["Retry-After"]) > 0
    write = without_database.post("/v1/tokens", {}, headers={"Idempotency-Key": "k"})
    assert (write.status_code, write.json["error"]["code"]) == (503, "idempotency-store-unavailable")
    assert "corrigenda_requests_total" in without_database.get("/metrics").text


def value(client: Client, name: str, **labels: str) -> float:
    """The sum of a metric's samples that have these labels."""
    families = text_string_to_metric_families(client.get("/metrics").text)
    samples = [sample for family in families for sample in family.samples if sample.name == name]
    return sum(sample.value for sample in samples if labels.items() <= sample.labels.items())


def test_requests_are_counted_by_route_and_status(anonymous: Client) -> None:
    labels = {"method": "GET", "route": "/v1/tokens/{tokenId}", "status": "401"}
    before = value(anonymous, "corrigenda_requests_total", **labels)
    anonymous.get("/v1/tokens/x")
    anonymous.get("/v1/tokens/y")
    assert value(anonymous, "corrigenda_requests_total", **labels) == before + 2
    assert value(anonymous, "corrigenda_request_seconds_count", route="/v1/tokens/{tokenId}") >= 2


def test_methods_that_nobody_has_are_counted_as_one(admin: Client) -> None:
    for number in range(3):
        admin.send(f"M{number}", "/v1/me")
    assert value(admin, "corrigenda_requests_total", method="M1") == 0
    assert value(admin, "corrigenda_requests_total", method="other") >= 3


def test_transitions_and_waiting_work_are_counted(admin: Client, engine: Engine) -> None:
    project = Project(admin, engine)
    pending = value(admin, "corrigenda_outbox_jobs", state="pending")
    one, other = project.correct(), project.correct()
    assert value(admin, "corrigenda_outbox_jobs", state="pending") > pending
    fixed, reopened = (value(admin, "corrigenda_transitions_total", kind=kind) for kind in ("fixed", "reopened"))
    project.test("2.0.0", {one: "right", other: "right"})
    project.deploy("2.0.0")
    project.work()
    project.test("2.0.0", {one: "wrong"})
    project.work()
    assert value(admin, "corrigenda_transitions_total", kind="fixed") == fixed + 2
    assert value(admin, "corrigenda_transitions_total", kind="reopened") == reopened + 1
    assert value(admin, "corrigenda_work_items", queue="improve", state="ready") >= 1

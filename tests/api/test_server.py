"""What only the real server shows: bodies as they travel, connections that go on, and all processes' metrics."""

from __future__ import annotations

import http.client
import signal
import socket
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import orjson
import psutil
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.client import Client
from tests.operation.machine import bare_environment, free_port, get, wait_for

pytestmark = pytest.mark.slow

LIMIT = 64 * 1024
SECONDS = 10


class Served:
    def __init__(self, port: int, log: Path, pid: int, secret: str) -> None:
        self.port, self.log, self.pid = port, log, pid
        self.authorization = {"Authorization": f"Bearer {secret}"}

    def connection(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=SECONDS)


@pytest.fixture(scope="module")
def process(database_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, Path, int]]:
    """Granian with two processes, as ``corrigenda api`` runs it."""
    folder, port = tmp_path_factory.mktemp("served"), free_port()
    env = bare_environment() | {
        "DATABASE_URL": database_url,
        "CORRIGENDA_METRICS_DIR": str(folder / "metrics"),
        "CORRIGENDA_MAX_BODY_BYTES": str(LIMIT),
        "CORRIGENDA_API_WORKERS": "2",
    }
    command = [sys.executable, "-P", "-m", "app.cli", "api", "--port", str(port)]
    with (folder / "log").open("wb") as log:
        running = subprocess.Popen(command, env=env, stderr=log, stdout=log)
        try:
            wait_for(lambda: get(port, "/healthz") is not None)
            yield port, folder / "log", running.pid
        finally:
            running.send_signal(signal.SIGTERM)
            running.wait(SECONDS)


@pytest.fixture
def served(process: tuple[int, Path, int], admin: Client) -> Served:
    assert admin.secret is not None
    return Served(*process, admin.secret)


def said(connection: http.client.HTTPConnection) -> tuple[int, str]:
    answer = connection.getresponse()
    body = orjson.loads(answer.read())
    return answer.status, body.get("error", {}).get("code", "")


def chunk(size: int) -> bytes:
    return f"{size:x}\r\n".encode() + b"x" * size + b"\r\n"


@pytest.mark.parametrize("token", [True, False])
def test_a_body_that_says_it_is_too_large_is_refused_before_it_comes(served: Served, token: bool) -> None:
    connection = served.connection()
    connection.putrequest("POST", "/v1/corrections")
    for name, value in (served.authorization if token else {}).items():
        connection.putheader(name, value)
    connection.putheader("Content-Length", str(LIMIT + 1))
    connection.endheaders()
    assert said(connection) == (413, "request-too-large")
    connection.close()


def test_a_body_in_chunks_is_refused_before_it_ends(served: Served) -> None:
    connection = served.connection()
    connection.putrequest("POST", "/v1/corrections")
    connection.putheader("Transfer-Encoding", "chunked")
    connection.endheaders()
    connection.send(chunk(LIMIT))
    connection.send(chunk(1))
    assert said(connection) == (413, "request-too-large")
    connection.close()


@pytest.mark.parametrize("chunked", [True, False])
def test_a_body_of_just_the_limit_is_read(served: Served, chunked: bool) -> None:
    connection = served.connection()
    body = iter([b"x" * (LIMIT // 2)] * 2) if chunked else b"x" * LIMIT
    connection.request("POST", "/v1/tokens", body, served.authorization, encode_chunked=chunked)
    assert said(connection) == (400, "bad-input")
    connection.close()


@pytest.mark.parametrize("came", [b"", b'{"name": "Half"}'], ids=["nothing", "a part that is JSON"])
def test_a_body_that_breaks_off_has_no_effect_and_leaves_its_key_free(
    served: Served, admin: Client, came: bytes
) -> None:
    path, body = f"/v1/projects/{uuid.uuid4().hex}", b'{"name": "Half"}   '
    connection = served.connection()
    connection.putrequest("PUT", path)
    for name, value in (served.authorization | {"Idempotency-Key": "broke", "Content-Length": str(len(body))}).items():
        connection.putheader(name, value)
    connection.endheaders()
    connection.send(came)
    assert connection.sock is not None
    connection.sock.shutdown(socket.SHUT_WR)
    assert said(connection) == (400, "bad-input")
    connection.close()
    assert admin.get(path).status_code == 404
    connection = served.connection()
    connection.request("PUT", path, body, served.authorization | {"Idempotency-Key": "broke"})
    assert said(connection) == (201, "")
    connection.close()


@pytest.mark.parametrize("size", [LIMIT + 1, 3 * LIMIT])
@pytest.mark.parametrize("chunked", [True, False])
def test_who_sends_a_refused_body_whole_is_answered_and_served_on(served: Served, size: int, chunked: bool) -> None:
    connection = served.connection()
    body = iter([b"x" * 1000] * (size // 1000 + 1)) if chunked else b"x" * size
    connection.request("POST", "/v1/tokens", body, served.authorization, encode_chunked=chunked)
    assert said(connection) == (413, "request-too-large")
    before = connection.sock
    connection.request("GET", "/v1/me", headers=served.authorization)
    assert said(connection) == (200, "")
    assert connection.sock is before, "the connection was kept"
    connection.close()


def importing(served: Served) -> http.client.HTTPConnection:
    """An import under way, whose body is sent by chunks."""
    connection = served.connection()
    connection.putrequest("POST", "/v1/runs/import")
    for name, value in (served.authorization | {"Transfer-Encoding": "chunked"}).items():
        connection.putheader(name, value)
    connection.endheaders()
    return connection


def test_a_line_is_answered_while_its_sender_waits(served: Served) -> None:
    connection = importing(served)
    line = b"6\r\n[1]  \n\r\n"
    connection.send(line)
    answer = connection.getresponse()
    assert orjson.loads(answer.readline())["line"] == 1
    connection.send(line)
    assert orjson.loads(answer.readline())["line"] == 2
    connection.send(b"0\r\n\r\n")
    assert orjson.loads(answer.readline())["totals"]["error"] == 2
    connection.close()


def test_a_line_without_end_is_not_held(served: Served) -> None:
    connection = importing(served)
    before, most = memory(served), 0
    for _ in range(200):
        connection.send(chunk(512 * 1024))
        most = max(most, memory(served))
    assert most - before < 40 * 1024 * 1024, "of the 100 MiB that were sent"
    connection.send(b"1\r\n\n\r\n0\r\n\r\n")
    rows = [orjson.loads(row) for row in connection.getresponse().read().splitlines()]
    assert [row.get("error", {}).get("code") for row in rows] == ["request-too-large", None]
    connection.close()


def memory(served: Served) -> int:
    """Bytes that the API's processes hold."""
    processes = psutil.Process(served.pid).children(recursive=True)
    return sum(process.memory_info().rss for process in processes)


def test_metrics_are_those_of_all_processes(served: Served) -> None:
    for _ in range(20):
        connection = served.connection()
        connection.request("GET", "/v1/me", headers=served.authorization)
        assert said(connection) == (200, "")
        connection.close()

    def count() -> float:
        page = (get(served.port, "/metrics") or b"").decode()
        return sum(
            sample.value
            for family in text_string_to_metric_families(page)
            for sample in family.samples
            if sample.name == "corrigenda_requests_total"
            and (sample.labels["route"], sample.labels["status"]) == ("/v1/me", "200")
        )

    assert {count() >= 20 for _ in range(10)} == {True}, "whichever process answers"


def test_each_request_is_a_line(served: Served) -> None:
    connection = served.connection()
    connection.request("GET", "/v1/me?x=secret", headers=served.authorization | {"X-Request-Id": "line-1"})
    assert said(connection) == (400, "bad-input")
    connection.close()
    lines = [orjson.loads(line) for line in served.log.read_bytes().splitlines() if b'"line-1"' in line]
    assert len(lines) == 1
    line = lines[0]
    assert (line["event"], line["method"], line["route"], line["status"]) == ("request", "GET", "/v1/me", 400)
    assert (line["level"], line["requestId"]) == ("info", "line-1")
    assert line["tenantId"].startswith("t-")
    assert 0 < line["ms"] < 10_000
    assert b"secret" not in served.log.read_bytes()


def test_a_request_that_is_none_ends_its_connection(served: Served) -> None:
    with socket.create_connection(("127.0.0.1", served.port), SECONDS) as raw:
        raw.sendall(b"GARBAGE\r\n\r\n")
        assert b" 400 " in raw.recv(100)
    assert get(served.port, "/healthz") is not None

"""What a benchmark runs on: an embedded PostgreSQL in a folder of its own, the real server, and a look at their CPU."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil
import psycopg2

from app.data_folder import DataFolder
from app.domain.model import Grant, Permission
from app.embedded import postgres as embedded
from app.services.issue_tokens import Wanted, issue_token
from app.store.engine import create_engine
from app.store.migrate import migrate
from app.store.tokens import ensure_tenant
from app.supervisor import spawn
from app.transaction import transaction
from bench.load import Outcome, Plan

TENANT = "bench"


@dataclass(frozen=True)
class Database:
    """A migrated database with a tenant ``bench`` and an admin's token."""

    url: str
    token: str
    server_pid: int


@dataclass(frozen=True)
class Postgres:
    """A running server: the URL of its database ``postgres``, and its process id."""

    url: str
    pid: int


@contextlib.contextmanager
def postgres() -> Iterator[Postgres]:
    """A PostgreSQL server as ``corrigenda up`` runs it, in a folder of its own; both go with the block."""
    with tempfile.TemporaryDirectory(prefix="corrigenda-bench-") as place:
        folder = DataFolder(Path(place))
        folder.logs.mkdir()
        program, url = embedded.server(folder, lambda _line: None)
        process = spawn(program)
        try:
            while not embedded.answers(url):
                assert process.poll() is None, program.log.read_text("utf-8")
                time.sleep(0.05)
            yield Postgres(url, process.pid)
        finally:
            process.send_signal(signal.SIGINT)
            process.wait()
            embedded.forget_sockets(folder)


def new_database(server: Postgres, name: str) -> Database:
    """A database of that name on the server."""
    with contextlib.closing(psycopg2.connect(server.url)) as connection:
        connection.autocommit = True
        connection.cursor().execute(f"CREATE DATABASE {name}")
    url = server.url.replace("/postgres?", f"/{name}?")
    assert url != server.url
    migrate(url)
    with transaction(create_engine(url)) as tx:
        ensure_tenant(tx, TENANT)
        _, token = issue_token(tx, TENANT, Wanted("bench", "admin", "user", "bench"))
    return Database(url, token, server.pid)


def limited(database: Database, permission: Permission, *projects: int) -> Database:
    """The same, for a caller who has ``permission`` on those of its projects only."""
    grants = tuple(Grant("project", permission, f"project-{n}") for n in projects)
    with transaction(create_engine(database.url)) as tx:
        _, token = issue_token(tx, TENANT, Wanted("limited", "member", "user", "person-7", grants))
    return dataclasses.replace(database, token=token)


@contextlib.contextmanager
def api(database: Database) -> Iterator[tuple[int, int]]:
    """``corrigenda api`` on ``database``: its port and its process id."""
    port = int(os.environ.get("BENCH_PORT") or _free_port())
    command = [sys.executable, "-P", "-m", "app.cli", "api", "--port", str(port)]
    environ = {**os.environ, "DATABASE_URL": database.url, "CORRIGENDA_API_WORKERS": "2"}
    server = subprocess.Popen(command, env=environ, stderr=subprocess.DEVNULL)
    try:
        _wait_for(port, database.token)
        yield port, server.pid
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(20)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


def _wait_for(port: int, token: str) -> None:
    request = urllib.request.Request(f"http://127.0.0.1:{port}/v1/me", headers={"Authorization": f"Bearer {token}"})
    end = time.monotonic() + 30
    while True:
        try:
            with socket.create_connection(("127.0.0.1", port), 1), urllib.request.urlopen(request, timeout=5):
                return
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.1)


def cpu_seconds(pid: int) -> float:
    """User and system time of the process ``pid`` and all below it, those that ended too."""
    parent = psutil.Process(pid)
    total = 0.0
    for process in [parent, *parent.children(recursive=True)]:
        with contextlib.suppress(psutil.NoSuchProcess):
            spent = process.cpu_times()
            total += spent.user + spent.system
            if process.pid == pid:
                total += spent.children_user + spent.children_system
    return total


@dataclass(frozen=True)
class Measured:
    """What a load did, and CPU milliseconds a request of the application and of the database."""

    outcome: Outcome
    app_ms: float
    database_ms: float


def put_load(plan: Plan, app_pid: int, database_pid: int) -> Measured:
    """Run ``plan`` in a process of its own."""
    generator = subprocess.Popen(
        [sys.executable, "-m", "bench.load"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert generator.stdin is not None
    assert generator.stdout is not None
    generator.stdin.write(json.dumps(asdict(plan)))
    generator.stdin.close()
    assert generator.stdout.readline() == "go\n", "the load generator did not start"
    before = cpu_seconds(app_pid), cpu_seconds(database_pid)
    outcome = Outcome(**json.loads(generator.stdout.readline()))
    after = cpu_seconds(app_pid), cpu_seconds(database_pid)
    generator.wait()
    app_ms, database_ms = ((b - a) * 1000 / max(outcome.requests, 1) for a, b in zip(before, after, strict=True))
    return Measured(outcome, app_ms, database_ms)

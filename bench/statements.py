"""The statements of a request, as they go to PostgreSQL, and pgbench running those same statements."""

from __future__ import annotations

import functools
import os
import re
import subprocess
import tempfile
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, urlsplit

import psycopg2.extensions
import sqlalchemy.event
import sqlalchemy.pool
from flask.testing import FlaskClient

from app.config import Settings
from app.embedded.postgres import installed
from app.wsgi import create_app
from bench.stage import Database, cpu_seconds


class _Listening(psycopg2.extensions.cursor):
    heard: list[str] = []  # noqa: RUF012

    def execute(self, query: Any, vars: Any = None) -> None:
        super().execute(query, vars)
        assert self.query is not None
        _Listening.heard.append(self.query.decode())


def _listen(connection: Any, _record: Any) -> None:
    connection.cursor_factory = _Listening


@functools.cache
def _client(url: str) -> FlaskClient:
    """The service on the database at ``url``, in this process; what it asks is heard."""
    flask = create_app(Settings(database_url=url, secret_key="bench"))
    sqlalchemy.event.listen(sqlalchemy.pool.Pool, "connect", _listen)
    try:
        flask.test_client().get("/v1/me", headers={"Authorization": "Bearer nobody"})
    finally:
        sqlalchemy.event.remove(sqlalchemy.pool.Pool, "connect", _listen)
    return flask.test_client()


def statements_of(
    database: Database, method: str, path: str, body: bytes | None = None, headers: dict[str, str] | None = None
) -> list[str]:
    """What the service asks the database for one request, each one a round trip."""
    client = _client(database.url)
    _Listening.heard.clear()
    sent = {"Authorization": f"Bearer {database.token}", **(headers or {})}
    answer = client.open(path, method=method, data=body, headers=sent)
    assert answer.status_code < 400, answer.text
    return list(_Listening.heard)


@dataclass(frozen=True)
class Cost:
    """CPU milliseconds of the database for one request, and blocks of 8 KB that it looked at."""

    milliseconds: float
    blocks: int


def blocks_of(cursor: psycopg2.extensions.cursor, statement: str) -> int:
    """Blocks that ``statement`` looks at. It is run."""
    cursor.execute("EXPLAIN (ANALYZE, BUFFERS) " + statement)
    plan = "\n".join(line for (line,) in cursor.fetchall())
    found = re.search(r"Buffers: shared hit=(\d+)(?: read=(\d+))?", plan)
    return sum(int(n or 0) for n in found.groups()) if found else 0


@dataclass(frozen=True)
class Ceiling:
    """What pgbench reached. ``database_ms``: CPU a transaction."""

    rate: float
    database_ms: float


def pgbench(database: Database, script: str, seconds: float, connections: int = 16) -> Ceiling:
    """Run ``script`` for so long. ``:n`` counts up from 1 on each connection, ``:client_id`` is its number."""
    parts = urlsplit(database.url)
    with tempfile.NamedTemporaryFile("w", suffix=".sql") as file:
        file.write("\\set n :n + 1\n" + script)
        file.flush()
        command = [
            str(installed() / "bin" / "pgbench"), "--no-vacuum", "--protocol", "simple",
            "--client", str(connections), "--jobs", "2",
            "--time", str(max(1, round(seconds))), "--define", "n=0", "--file", file.name, "--username",
            parts.username or "postgres", "--host", parse_qs(parts.query)["host"][0], parts.path[1:],
        ]  # fmt: skip
        before = cpu_seconds(database.server_pid)
        done = subprocess.run(command, capture_output=True, text=True, env=os.environ, check=False)
        spent = cpu_seconds(database.server_pid) - before
    if done.returncode != 0:
        raise RuntimeError(f"pgbench: {done.stderr[-2000:]}")
    processed = re.search(r"transactions actually processed: (\d+)", done.stdout)
    rate = re.search(r"tps = ([\d.]+)", done.stdout)
    assert processed is not None, done.stdout
    assert rate is not None, done.stdout
    return Ceiling(float(rate.group(1)), spent * 1000 / int(processed.group(1)))


def script_of(statements: list[str]) -> str:
    """A pgbench script of ``statements``, each one a round trip."""
    one_line = (" ".join(statement.split()) for statement in statements)
    return "\n".join(re.sub(r"^BEGIN; ", r"BEGIN \\; ", statement) + ";" for statement in one_line)

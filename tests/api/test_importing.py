from __future__ import annotations

import io
import json
import queue
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from flask import Flask
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Engine

from app.api.ahead import ahead
from app.api.importing import Import, line_reader, lines_of
from app.config import Settings
from app.domain.model import Grant
from app.store.engine import create_engine
from app.wsgi import create_app
from tests.api.test_runs import a_body
from tests.client import Client
from tests.conftest import ClientOf
from tests.factories import a_project


@pytest.fixture(autouse=True)
def project(engine: Engine, tenant: str) -> str:
    return a_project(engine, tenant)


def a_line(run_id: Any = "r", **over: Any) -> str:
    return json.dumps(a_body(id=run_id, **over))


def imported(client: Client, *lines: str | bytes, **more: Any) -> list[dict[str, Any]]:
    data = b"\n".join(line if isinstance(line, bytes) else line.encode() for line in lines)
    answer = client.post("/v1/runs/import", data=data, **more)
    assert (answer.status_code, answer.content_type) == (200, "application/x-ndjson"), answer.text
    return [json.loads(line) for line in answer.text.splitlines()]


def test_each_line_is_taken_or_refused_alone(admin: Client) -> None:
    lines = [
        a_line("one", status="running", output=...),
        "",
        "nonsense",
        a_line("one"),
        " \t\r",
        a_line("one").replace(": ", " :  "),
        a_line("one", output="other"),
        a_line("two", projectId="nope"),
        json.dumps(a_body()),
        a_line("bad id"),
        a_line(7),
        a_line("three", extra=1),
        "[1]",
        b"\xff",
        a_line("four", conversationId="\ud800"),
        a_line("five", output=...),
        a_line("six"),
    ]
    rows = imported(admin, *lines)
    shown = [(row.get("line"), row.get("id"), row.get("result"), row.get("error", {}).get("code")) for row in rows[:-1]]
    assert shown == [
        (1, "one", "created", None),
        (3, None, "error", "bad-input"),
        (4, "one", "updated", None),
        (6, "one", "unchanged", None),
        (7, "one", "error", "run-already-terminal"),
        (8, "two", "error", "project-not-found"),
        (9, None, "error", "bad-input"),
        (10, "bad id", "error", "bad-input"),
        (11, None, "error", "bad-input"),
        (12, "three", "error", "unknown-field"),
        (13, None, "error", "bad-input"),
        (14, None, "error", "bad-input"),
        (15, "four", "error", "bad-input"),
        (16, "five", "error", "bad-input"),
        (17, "six", "created", None),
    ]
    assert rows[-1] == {"totals": {"created": 2, "updated": 1, "unchanged": 1, "error": 11}}
    assert rows[9]["error"]["details"]["issues"][0]["path"] == "/extra"
    assert admin.get("/v1/runs/one").json["output"] == {"answer": "hi"}


def test_a_put_and_a_line_of_the_same_content_are_the_same(admin: Client) -> None:
    admin.put("/v1/runs/r", a_body())
    assert imported(admin, a_line("r"))[0]["result"] == "unchanged"
    imported(admin, a_line("s"))
    assert admin.put("/v1/runs/s", a_body()).status_code == 200


def test_nothing_in_nothing_out(admin: Client) -> None:
    nothing = [{"totals": {"created": 0, "updated": 0, "unchanged": 0, "error": 0}}]
    assert imported(admin, "") == nothing
    assert imported(admin, "\n\n  \n") == nothing


def test_an_idempotency_key_is_ignored(admin: Client) -> None:
    for expected in ("created", "unchanged"):
        assert imported(admin, a_line(), headers={"Idempotency-Key": "k"})[0]["result"] == expected
    assert imported(admin, a_line("other"), headers={"Idempotency-Key": "k"})[0]["result"] == "created"


def test_every_line_needs_write(admin: Client, client_of: ClientOf, engine: Engine, tenant: str) -> None:
    a_project(engine, tenant, "q")
    a_project(engine, tenant, "z")
    client = client_of(grants=[Grant("project", "write", "p"), Grant("project", "read", "q")])
    rows = imported(client, *(a_line(name, projectId=name) for name in ("p", "q", "z")))
    assert [row.get("result") for row in rows[:-1]] == ["created", "error", "error"]
    assert [row["error"]["code"] for row in rows[1:3]] == ["permission-denied", "project-not-found"]


def test_without_a_token_nothing_is_read(anonymous: Client) -> None:
    assert anonymous.post("/v1/runs/import", data=a_line().encode()).status_code == 401


@pytest.fixture
def small(settings: Settings, admin: Client) -> Client:
    """An admin of a service that takes 1,024 bytes."""
    app: Flask = create_app(Settings(database_url=settings.database_url, max_body_bytes=1024))
    return Client(app, admin.secret, admin.caller)


def test_the_body_limit_holds_for_each_line(small: Client) -> None:
    base = len(a_line("fits", output=""))
    fits, over = (a_line("fits", output="x" * (size - base)) for size in (1024, 1025))
    rows = imported(small, fits, over, fits + "\r", "x" * 100_000, a_line("after"), *["\n" * 2000])
    assert [row.get("result") for row in rows[:-1]] == ["created", "error", "unchanged", "error", "created"]
    assert rows[1]["error"]["code"] == rows[3]["error"]["code"] == "request-too-large"
    assert rows[1]["error"]["details"] == {"maxBytes": 1024}
    assert rows[1]["line"] == 2


def test_a_database_that_fails_half_way_makes_error_lines(admin: Client, settings: Settings) -> None:
    engine = create_engine(settings.database_url, pool_size=1, pool_timeout_ms=50)
    broken = create_engine("postgresql://nobody@127.0.0.1:1/none", pool_size=1, pool_timeout_ms=50)
    work = Import(engine, admin.caller, 10_000)

    def body() -> Iterator[bytes]:
        yield a_line("one").encode() + b"\n"
        work._engine = broken
        yield a_line("two").encode() + b"\n"
        work._engine = engine
        yield a_line("three").encode() + b"\n"

    rows = [json.loads(line) for line in work.answers(_Lines(body()))]
    engine.dispose()
    assert [row.get("result") for row in rows] == ["created", "error", "created", None]
    assert rows[1]["error"]["code"] == "database-busy"
    assert rows[3]["totals"]["error"] == 1


class _Lines:
    """A stream that gives line by line what an iterator does."""

    def __init__(self, lines: Iterator[bytes]) -> None:
        self._lines = lines

    def readline(self, size: int) -> bytes:
        return next(self._lines, b"")


def test_the_answer_begins_before_the_request_ends(admin: Client, engine: Engine) -> None:
    sent: queue.Queue[bytes] = queue.Queue()
    answers = ahead(Import(engine, admin.caller, 10_000).answers(_Lines(iter(sent.get, None))))
    for number in range(3):
        sent.put(a_line(f"r{number}").encode() + b"\n")
        assert json.loads(next(answers)) == {"line": number + 1, "id": f"r{number}", "result": "created"}
    sent.put(b"")
    assert json.loads(next(answers))["totals"]["created"] == 3
    assert next(answers, None) is None


def test_an_answer_runs_ahead_of_its_reader_and_loses_nothing() -> None:
    done = threading.Event()
    parts = [str(number).encode() * 50 + b"\n" for number in range(30_000)]

    def source() -> Iterator[bytes]:
        yield from parts
        done.set()

    answers = ahead(source())
    first = next(answers)
    assert done.wait(10)
    assert first + b"".join(answers) == b"".join(parts)


def test_an_answer_that_breaks_off_breaks_off_where_it_is_read() -> None:
    def source() -> Iterator[bytes]:
        yield b"one"
        raise RuntimeError("gone")

    answers = ahead(source())
    read = b""
    with pytest.raises(RuntimeError, match="gone"):  # noqa: PT012 the first part may come with or without the second
        for part in answers:
            read += part
    assert read == b"one"


def test_when_nobody_reads_any_more_the_work_stops() -> None:
    made: list[int] = []
    go_on, stopped = threading.Event(), threading.Event()

    def source() -> Iterator[bytes]:
        try:
            yield b"first"
            go_on.wait(10)
            for number in range(100):
                made.append(number)
                yield b"more"
        finally:
            stopped.set()

    answers = ahead(source())
    assert next(answers) == b"first"
    answers.close()  # type: ignore[attr-defined]
    go_on.set()
    assert stopped.wait(10)
    assert made == [0]


@given(st.lists(st.binary(max_size=30)), st.integers(1, 40), st.sampled_from(["short", "long", "unknown"]))
def test_lines_are_cut_at_their_ends_alone(parts: list[bytes], limit: int, length: str) -> None:
    data = b"\n".join(parts)
    *ended, last = data.split(b"\n")
    expected = [line.rstrip(b"\r") for line in ended] + ([last] if last else [])
    told = None if length == "unknown" else len(data)
    stream = line_reader(io.BytesIO(data), told, 0 if length == "long" else len(data))
    assert list(lines_of(stream, limit)) == [line if len(line) <= limit else None for line in expected]


@pytest.mark.parametrize("limit", [1, 10_000], ids=["long", "short"])
def test_of_a_body_that_breaks_off_the_lines_that_came_are_taken(limit: int) -> None:
    stream = line_reader(io.BytesIO(b"one\ntwo\nth"), 1000, limit)
    assert list(lines_of(stream, 10)) == [b"one", b"two", b"th"]


@given(st.lists(st.integers(0, 200_000), max_size=5), st.integers(1, 100_000))
def test_long_lines_of_a_body_of_unknown_length_are_cut_there_too(sizes: list[int], limit: int) -> None:
    lines = [b"x" * size for size in sizes]
    stream = line_reader(io.BytesIO(b"".join(line + b"\n" for line in lines)), None, limit)
    assert list(lines_of(stream, limit)) == [line if len(line) <= limit else None for line in lines]

"""Commands against a real database and a real service; what an operator gets wrong is one line."""

from __future__ import annotations

import dataclasses
import json
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg2
import pytest
from click.testing import CliRunner, Result
from sqlalchemy import Engine

from app.cli import main
from app.commands.importing import Corrections, Note, run
from app.config import SettingError, read_settings
from app.failure import Failure
from app.remote import Remote
from app.store import tokens
from app.store.engine import reading
from app.store.migrate import head
from tests.client import Client
from tests.conftest import new_database
from tests.factories import a_project, a_run
from tests.operation.machine import COMMAND, bare_environment, free_port, get, wait_for

Run = Callable[..., Result]


@pytest.fixture
def command(tmp_path: Path) -> Run:
    """Runs a command in an environment without settings but those given."""

    def run_command(*words: str, **env: str) -> Result:
        kept = dict.fromkeys(("DATABASE_URL", "REDIS_URL"))
        bare: dict[str, str | None] = {**kept, **bare_environment(), "XDG_STATE_HOME": str(tmp_path)}
        bare |= {"CORRIGENDA_DATA": str(tmp_path / "none"), "CORRIGENDA_PORT": str(free_port())}
        return CliRunner().invoke(main, words, env=bare | env)

    return run_command


@pytest.fixture
def empty_database(server_url: str) -> str:
    return new_database(server_url)


@pytest.fixture(scope="session")
def address(database_url: str) -> Iterator[str]:
    """The service, over HTTP."""
    port = free_port()
    env = bare_environment() | {"DATABASE_URL": database_url, "CORRIGENDA_API_WORKERS": "1"}
    with subprocess.Popen([*COMMAND, "api", "--port", str(port)], env=env, stderr=subprocess.DEVNULL) as process:
        wait_for(lambda: get(port, "/readyz") is not None)
        yield f"http://127.0.0.1:{port}"
        process.terminate()


def one_line(result: Result) -> str:
    assert result.exit_code == 1
    assert not result.exception or isinstance(result.exception, SystemExit), result.exception
    assert len(result.stderr.splitlines()) == 1, result.stderr
    return result.stderr


def test_migrate_goes_to_this_version_and_again(command: Run, empty_database: str) -> None:
    for _ in range(2):
        done = command("migrate", DATABASE_URL=empty_database)
        assert (done.exit_code, done.stdout) == (0, f"The database is at revision {head()}.\n")


@pytest.mark.slow
def test_several_may_migrate_an_empty_database_at_once(empty_database: str) -> None:
    env = bare_environment() | {"DATABASE_URL": empty_database}
    command = [*COMMAND, "migrate"]
    several = [subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    assert [process.communicate(timeout=120)[0] for process in several] == [
        f"The database is at revision {head()}.\n"
    ] * 4


def test_a_database_of_a_newer_version_is_left_alone(command: Run, empty_database: str) -> None:
    command("migrate", DATABASE_URL=empty_database)
    connection = psycopg2.connect(empty_database)
    connection.cursor().execute("UPDATE alembic_version SET version_num = '9999'")
    connection.commit()
    connection.close()
    for words in (("migrate",), ("api",), ("worker",)):
        assert "revision 9999" in one_line(
            command(*words, DATABASE_URL=empty_database, REDIS_URL="redis://127.0.0.1:1")
        )


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        ({}, "DATABASE_URL isn't set"),
        ({"DATABASE_URL": "postgresql://nobody@127.0.0.1:1/x"}, "can't be reached: connection to server"),
        ({"DATABASE_URL": "mysql://x"}, "DATABASE_URL must start with postgresql://."),
        ({"DATABASE_URL": "postgresql://h/x?nope=1"}, "DATABASE_URL isn't a PostgreSQL address"),
        ({"DATABASE_URL_FILE": "/nonexistent"}, "DATABASE_URL_FILE can't be read"),
        ({"DATABASE_URL": "postgresql:///x?host=/nowhere"}, "No such file or directory: is `corrigenda up` running?"),
        ({"CORRIGENDA_PORT": "0"}, "CORRIGENDA_PORT must be from 1 to 65535."),
        ({"CORRIGENDA_SMTP_URL": "smtp://host:x"}, "CORRIGENDA_SMTP_URL must be smtp://"),
        ({"CORRIGENDA_BASE_URL": "foo"}, "CORRIGENDA_BASE_URL must be an http:// or https:// address."),
    ],
)
@pytest.mark.parametrize("words", [("api",), ("migrate",), ("worker",), ("relay",), ("beat",)])
def test_a_setting_that_cannot_be_used_is_one_line(
    command: Run, words: tuple[str, ...], env: dict[str, str], expected: str
) -> None:
    assert expected in one_line(command(*words, REDIS_URL="redis://127.0.0.1:1/0", **env))


@pytest.mark.parametrize(
    ("name", "text", "good"),
    [
        ("BASE_URL", "foo", False),
        ("BASE_URL", "c.example", False),
        ("BASE_URL", "ftp://c.example", False),
        ("BASE_URL", "https://", False),
        ("BASE_URL", "https://c.example:0", False),
        ("BASE_URL", "https://c.example:99999", False),
        ("BASE_URL", "https://[::1", False),
        ("BASE_URL", "https://c.example/?a=b", False),
        ("BASE_URL", "https://c.example/#a", False),
        ("BASE_URL", "https://c.example/a b", False),
        ("BASE_URL", "https://c.example:8443/corrections/", True),
        ("IMPROVE_URL", "https://c.example:99999/", False),
        ("IMPROVE_URL", "https://c.example/?a=b", True),
        ("MAIL_FROM", "foo", False),
        ("MAIL_FROM", "a@b.example, c@d.example", False),
        ("MAIL_FROM", "Ann <ann@b.example>\r\nBcc: c@d.example", False),
        ("MAIL_FROM", "Änn <ann@b.example>", True),
        ("MAIL_FROM", "corrigenda@localhost", True),
    ],
)
def test_addresses_among_the_settings_are_checked_at_the_start(name: str, text: str, good: bool) -> None:
    variable = f"CORRIGENDA_{name}"
    if good:
        assert text in dataclasses.astuple(read_settings({variable: text}))
        return
    with pytest.raises(SettingError, match=f"^{variable} [^\n]+$"):
        read_settings({variable: text})


TOO_LONG = "a" * 300
"""A name that no file can have: looking for it fails, also for root."""


@pytest.mark.parametrize(
    "words",
    [
        ("up",),
        ("doctor", "--data", f"/{TOO_LONG}"),
        ("token", "create", "--tenant", "t", "--name", "n", "--role", "admin", "--data", f"/{TOO_LONG}"),
        ("export",),
        ("import", "runs", __file__),
    ],
    ids=lambda words: words[0],
)
def test_a_data_folder_that_cannot_be_looked_at_is_one_line(command: Run, words: tuple[str, ...]) -> None:
    done = command(*words, CORRIGENDA_DATA=f"/{TOO_LONG}")
    line = done.stdout.splitlines()[0] if words[0] == "doctor" else one_line(done)
    assert TOO_LONG in line
    assert "File name too long" in line


def test_the_doctor_goes_on_past_a_metrics_folder_that_cannot_be_looked_at(command: Run, database_url: str) -> None:
    found = command("doctor", DATABASE_URL=database_url, CORRIGENDA_METRICS_DIR=f"/{TOO_LONG}")
    assert f"BAD  settings: /{TOO_LONG} can't be used: File name too long." in found.stdout
    assert "ok   schema: revision" in found.stdout


def test_what_others_left_in_the_data_folder_is_one_line(command: Run, tmp_path: Path) -> None:
    (tmp_path / "data" / "redis" / "valkey.conf").mkdir(parents=True)
    done = command("up", "--data", str(tmp_path / "data"), DATABASE_URL="postgresql://nobody@127.0.0.1:1/x")
    assert "valkey.conf can't be used: Is a directory." in one_line(done)


def test_a_taken_port_leaves_no_folder_behind(command: Run, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = command("up", "--port", port, "--data", str(tmp_path / "new" / "data"))
    assert f"Port {port} of 127.0.0.1" in one_line(done)
    assert not (tmp_path / "new").exists()


def test_a_taken_port_is_one_line(command: Run, database_url: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert f"Port {port} of 127.0.0.1" in one_line(command("api", "--port", port, DATABASE_URL=database_url))


def test_a_token_is_the_last_word(command: Run, database_url: str, engine: Engine) -> None:
    made = command(
        "token", "create", "--tenant", "a-new-one", "--name", "n", "--role", "member", DATABASE_URL=database_url
    )
    with reading(engine) as db:
        known = tokens.by_secret(db, made.stdout.split()[-1])
    assert known is not None
    assert (known.caller.tenant_id, known.caller.role, known.caller.principal.kind) == (
        "a-new-one",
        "member",
        "service",
    )


@pytest.mark.parametrize(
    ("words", "env", "expected"),
    [
        (("--role", "member", "--tenant", "t"), {}, "or name the folder of `corrigenda up` with --data."),
        (("--role", "member", "--tenant", "t", "--data", "/nowhere"), {}, "/nowhere/database-url can't be read"),
        (("--role", "member", "--tenant", ""), {}, "--tenant must have"),
    ],
)
def test_a_token_that_cannot_be_made_is_one_line(
    command: Run, words: tuple[str, ...], env: dict[str, str], expected: str
) -> None:
    assert expected in one_line(command("token", "create", "--name", "n", *words, **env))


def test_a_token_needs_a_migrated_database(command: Run, empty_database: str) -> None:
    words = ("token", "create", "--tenant", "t", "--name", "n", "--role", "admin")
    assert "corrigenda migrate" in one_line(command(*words, DATABASE_URL=empty_database))


def test_openapi_needs_nothing(command: Run) -> None:
    shown = json.loads(command("openapi").stdout)
    assert shown["openapi"].startswith("3.1")
    assert "/v1/corrections" in shown["paths"]


def a_run_line(run_id: str, **over: Any) -> str:
    body = {
        "id": run_id, "projectId": "p", "subject": {"kind": "agent", "id": "a", "version": "1"},
        "status": "completed", "input": 1.0, "output": {"x": 1},
    }  # fmt: skip
    return json.dumps(body | over) + "\n"


def test_runs_are_imported_and_again(command: Run, address: str, admin: Client, engine: Engine, tmp_path: Path) -> None:
    a_project(engine, admin.caller.tenant_id)
    file = tmp_path / "runs.jsonl"
    file.write_text(a_run_line("a") + "\n" + a_run_line("b") + a_run_line("c", projectId="nope") + "{}\n")
    words = ("import", "runs", str(file), "--url", address, "--token", admin.secret or "")
    first, second = command(*words), command(*words)
    assert "2 created, 2 error" in first.stdout
    assert "2 error, 2 unchanged" in second.stdout
    errors = first.stderr.splitlines()
    assert errors[0] == file.name
    assert errors[1] == "line 4: project-not-found: There is no project nope."
    assert errors[2].startswith("line 5: bad-input: ")
    assert errors[3:] == ["Error: 2 lines were refused."]
    assert first.exit_code == 1
    assert admin.get("/v1/runs/a").json["input"] == 1


class Breaking(Remote):
    """A service that is gone after some requests."""

    requests_left = 2

    def send(self, *words: Any, **more: Any) -> Any:
        if not self.requests_left:
            raise Failure("gone")
        self.requests_left -= 1
        return super().send(*words, **more)


def test_an_import_goes_on_where_it_broke(
    command: Run, address: str, admin: Client, engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = [a_run(engine, admin.caller.tenant_id) for _ in range(5)]
    file = tmp_path / "corrections.jsonl"
    file.write_text("".join(json.dumps({"runId": run_id, "answer": "right"}) + "\n" for run_id in runs))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    with pytest.raises(Failure), Breaking(address, admin.secret or "") as breaking:
        run(Corrections(breaking), file, Note("corrections", address, file))
    words = ("import", "corrections", str(file), "--url", address, "--token", admin.secret or "")
    second, third = command(*words), command(*words)
    assert "Going on after line 2: 2 recorded so far." in second.stderr
    assert second.stdout == f"{file}: 5 recorded.\n"
    assert third.stdout == f"{file}: 5 repeated.\n"
    assert len(admin.get("/v1/corrections").json["data"]) == 5


def test_corrections_are_exported(command: Run, address: str, admin: Client, engine: Engine, tmp_path: Path) -> None:
    run_id = a_run(engine, admin.caller.tenant_id)
    made = admin.post("/v1/corrections", {"runId": run_id, "answer": "right", "why": "ü"}).json
    words = ("export", "--url", address, "--token", admin.secret or "")
    assert json.loads(command(*words).stdout) == made
    file = tmp_path / "out.jsonl"
    assert command(*words, "--filter", "status=open", "--output", str(file)).exit_code == 0
    assert file.read_bytes() == b""
    assert "nope" in one_line(command(*words, "--filter", "status=nope"))


@pytest.mark.parametrize("words", [("export",), ("test-set", "export")])
def test_an_output_that_cannot_be_written_is_one_line(
    command: Run, address: str, admin: Client, tmp_path: Path, words: tuple[str, ...]
) -> None:
    service = ("--url", address, "--token", admin.secret or "")
    gone = tmp_path / "gone" / "out.jsonl"
    refused = one_line(command(*words, *service, "--output", str(gone)))
    assert refused == f"Error: {gone} can't be written: No such file or directory.\n"
    assert [path.name for path in tmp_path.iterdir()] == []


@pytest.mark.parametrize("url", ["nowhere", "ftp://127.0.0.1", "http://127.0.0.1:x"])
def test_what_is_no_address_is_one_line(command: Run, url: str) -> None:
    expected = f"Error: {url} isn't an address such as http://127.0.0.1:8400.\n"
    assert one_line(command("export", "--url", url, "--token", "x")) == expected


@pytest.mark.parametrize("words", [("export",), ("import", "runs", __file__)])
def test_a_service_that_is_away_and_a_bad_token_are_one_line(
    command: Run, address: str, words: tuple[str, ...]
) -> None:
    assert "can't be reached" in command(*words, "--url", "http://127.0.0.1:1", "--token", "x").stderr
    assert "refuses the token: auth-missing" in command(*words, "--url", address, "--token", "x").stderr
    assert "There is no token" in one_line(command(*words, "--url", address))


def test_the_doctor_says_what_is_wrong(command: Run, database_url: str, empty_database: str) -> None:
    broker = {"REDIS_URL": "redis://127.0.0.1:1/0"}
    empty = command("doctor", DATABASE_URL=empty_database, **broker)
    assert empty.exit_code == 1
    assert "BAD  schema: none: run `corrigenda migrate`." in empty.stdout
    assert "BAD  broker: can't be reached" in empty.stdout
    assert (
        "BAD  database: The database can't be reached"
        in command("doctor", DATABASE_URL="postgresql://127.0.0.1:1").stdout
    )
    found = command("doctor", DATABASE_URL=database_url, **broker).stdout
    assert "ok   schema: revision" in found


def test_a_metrics_folder_that_cannot_be_used_is_one_line(command: Run, database_url: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    folder = str(tmp_path / "file" / "metrics")
    env = {"DATABASE_URL": database_url, "REDIS_URL": "redis://127.0.0.1:1", "CORRIGENDA_METRICS_DIR": folder}
    for name in ("api", "worker", "relay", "beat"):
        assert f"CORRIGENDA_METRICS_DIR can't be used: {folder}: Not a directory." in one_line(command(name, **env))


def test_the_doctor_needs_no_metrics_folder(command: Run, database_url: str, tmp_path: Path) -> None:
    folder = tmp_path / "metrics"
    found = command("doctor", DATABASE_URL=database_url, CORRIGENDA_METRICS_DIR=str(folder))
    assert "ok   settings: readable" in found.stdout
    assert isinstance(found.exception, SystemExit)
    assert not folder.exists()


def test_the_doctor_revives_dead_jobs_when_it_is_told_to(command: Run, empty_database: str) -> None:
    words = {"DATABASE_URL": empty_database, "REDIS_URL": "redis://127.0.0.1:1/0"}
    assert "BAD  schema: none" in command("doctor", "--revive", **words).stdout, "and nothing worse"
    command("migrate", **words)
    with psycopg2.connect(empty_database) as connection, connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO tenants (id, created_at) VALUES ('t', now());"
            " INSERT INTO outbox (tenant_id, job, ids, failures, dead_at)"
            " VALUES ('t', 'corrigenda.route', '{}', 20, now())"
        )
    connection.close()
    assert "BAD  dead jobs: 1 failed for good" in command("doctor", **words).stdout
    revived = command("doctor", "--revive", **words).stdout
    assert "ok   dead jobs: 1 get another try" in revived
    assert "1 wait, " in revived
    assert "dead jobs" not in command("doctor", **words).stdout

"""``corrigenda up``: starts on an empty folder, stops at one signal, survives its own violent end."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import psycopg2
import pytest
import redis

from tests.operation.machine import Machine, corrigenda, wait_for

pytestmark = pytest.mark.slow


@pytest.fixture
def data() -> Iterator[Path]:
    """A folder to be. Not pytest's own: each run of it closes those of earlier runs to PostgreSQL's user."""
    with tempfile.TemporaryDirectory(prefix="corrigenda-tests-") as folder:
        yield Path(folder) / "data of mine"


def test_starts_serves_and_leaves_nothing_behind(data: Path) -> None:
    with Machine(data) as machine:
        machine.wait_ready()
        token = (data / "admin-token").read_text("utf-8").strip()
        assert json.loads(machine.get("/v1/me", token) or b"")["principal"] == {"kind": "user", "id": "admin"}
        assert (data / "admin-token").stat().st_mode & 0o777 == 0o600
        connection = psycopg2.connect((data / "database-url").read_text("utf-8").strip())
        connection.close()
        url = (data / "redis-url").read_text("utf-8").strip()
        with redis.Redis.from_url(url) as broker:
            assert broker.config_get("maxmemory-policy") == {"maxmemory-policy": "noeviction"}
        children = psutil.Process(machine.process.pid).children(recursive=True)
        assert machine.stop() == 0, machine.output
    assert not [child for child in children if child.is_running()]
    assert machine.output.rstrip().endswith("Stopped")


def test_a_killed_one_is_started_again_with_its_data(data: Path) -> None:
    with Machine(data) as first:
        first.wait_ready()
        made = corrigenda("token", "create", "--tenant", "t", "--name", "n", "--role", "admin", "--data", str(data))
        token = made.stdout.split()[-1]
        children = psutil.Process(first.process.pid).children(recursive=True)
        first.stop(signal.SIGKILL)
    wait_for(lambda: not any(child.is_running() for child in children))
    (data / "postgres" / "postmaster.pid").write_text(f"{os.getpid()}\n", "utf-8")
    with Machine(data, first.port) as second:
        second.wait_ready(2)
        assert json.loads(second.get("/v1/me", token) or b"")["tenantId"] == "t"
        assert second.stop(signal.SIGTERM) == 0, second.output


def test_a_second_start_on_the_folder_says_who_has_it(data: Path) -> None:
    with Machine(data) as machine:
        machine.wait_ready()
        second = corrigenda("up", "--data", str(data), "--port", "1")
        assert second.returncode == 1
        assert f"(process {machine.process.pid})" in second.stderr
        assert len(second.stderr.splitlines()) == 1


def test_a_broker_of_others_that_is_away_is_said_so_and_not_waited_for(data: Path) -> None:
    with Machine(data, env={"REDIS_URL": "redis://:sesame@127.0.0.1:1/0"}) as machine:
        machine.wait_ready()
        wait_for(lambda: "The broker of REDIS_URL can't be reached (" in machine.output, 10)
        assert "sesame" not in machine.output
        assert machine.stop() == 0, machine.output


def test_a_crashed_program_is_started_again_and_said_so(data: Path) -> None:
    with Machine(data) as machine:
        machine.wait_ready()
        token = (data / "admin-token").read_text("utf-8").strip()
        for name in ("postgres", "valkey-server", "python"):
            for child in psutil.Process(machine.process.pid).children():
                if child.name().startswith(name):
                    child.kill()
        wait_for(lambda: machine.output.count("starting it again in 1 s") >= 3)
        wait_for(lambda: machine.get("/v1/me", token) is not None)


def test_the_demo_tells_what_became_of_its_corrections_and_can_be_shown_again(data: Path) -> None:
    with Machine(data, None, "--demo") as first:
        wait_for(lambda: "Serving until Ctrl-C" in first.output)
        assert "34 corrections were recorded now" in first.output
        assert "33 corrections of shop's runs" in first.output
        assert "queue    owner, ready since" in first.output
        assert "inbox    of ines, who owns support: correction.with-owner" in first.output
        assert first.output.count("fixed in 1.4.0") == 2
    with Machine(data, first.port, "--demo") as second:
        wait_for(lambda: second.output.count("Serving until Ctrl-C") == 2)
        assert "\nThe demo's data are in; 0 corrections were recorded now" in second.output
        assert second.output.count("33 corrections of shop's runs") == 2


_UNTIL_ROUTED = """for try in $(seq 300); do
  if call GET '/v1/notifications?unread=true' | grep -q '"type"'; then
    if call GET '/v1/work?queue=owner&projectId=travel' | grep -q workItemId; then break; fi
  fi
  sleep 0.2
done"""
"""Instead of the README's two seconds, which a busy machine doesn't keep."""


def test_the_first_correction_of_the_readme_goes_as_it_says(data: Path) -> None:
    if shutil.which("curl") is None:
        pytest.skip("there is no curl here")
    text = (Path(__file__).parents[2] / "README.md").read_text("utf-8")
    script = text.split("## A first correction")[1].split("```sh\n")[1].split("```")[0]
    assert "data/admin-token" in script
    script = script.replace("data/admin-token", "admin-token").replace("sleep 2", _UNTIL_ROUTED)
    with Machine(data) as machine:
        machine.wait_ready()
        script = script.replace("http://127.0.0.1:8400", f"http://127.0.0.1:{machine.port}")
        done = subprocess.run(["bash", "-euc", script], cwd=data, capture_output=True, text=True, check=True)
    answers = [json.loads(line) for line in done.stdout.splitlines() if line]
    assert [answer["error"] for answer in answers if "error" in answer] == []
    recorded, listed, fetched, history, work, inbox = answers[3:]
    assert recorded["status"] == "with-owner"
    assert [row["id"] for row in listed["data"]] == [recorded["id"]]
    assert fetched["run"]["output"] == {"answer": "Done, your flight is cancelled."}
    assert [row["kind"] for row in history["data"]][:1] == ["recorded"]
    assert [(row["correctionId"], row["state"]) for row in work["data"]] == [(recorded["id"], "ready")]
    assert [row["type"] for row in inbox["data"]] == ["correction.with-owner"]

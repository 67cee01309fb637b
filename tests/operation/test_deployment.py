"""Procfile, compose file and README say what the code does."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from app.cli import main
from app.config import FIELDS
from app.data_folder import DataFolder
from app.embedded import valkey
from app.supervisor import spawn
from tests.conftest import new_database
from tests.operation.machine import bare_environment, free_port, get, wait_for

ROOT = Path(__file__).parents[2]
COMMANDS = main.list_commands(None)  # type: ignore[arg-type]


@pytest.fixture
def broker() -> Iterator[str]:
    """A Redis-compatible server on a port of its own."""
    with tempfile.TemporaryDirectory(prefix="corrigenda-tests-") as place:
        folder = DataFolder(Path(place))
        folder.redis.mkdir()
        folder.logs.mkdir()
        program, url = valkey.server(folder)
        process = spawn(program)
        wait_for(lambda: valkey.answers(url))
        yield url
        process.terminate()
        process.wait()


@pytest.mark.slow
def test_the_procfile_runs_on_an_empty_database(server_url: str, broker: str) -> None:
    port = free_port()
    env = bare_environment() | {
        "DATABASE_URL": new_database(server_url),
        "REDIS_URL": broker,
        "CORRIGENDA_PORT": str(port),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    command = [sys.executable, "-m", "honcho", "start", "web", "worker", "relay", "beat"]
    with subprocess.Popen(
        command, cwd=ROOT, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        try:
            wait_for(lambda: get(port, "/readyz") is not None)
            doctor = subprocess.run(
                [sys.executable, "-P", "-m", "app.cli", "doctor"], env=env, capture_output=True, text=True, check=False
            )
            assert doctor.returncode == 0, doctor.stdout
        finally:
            process.send_signal(signal.SIGINT)
            output, _ = process.communicate(timeout=60)
    assert "Traceback" not in output


def compose() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text("utf-8"))
    return loaded


def test_compose_runs_every_part_with_commands_and_settings_that_there_are() -> None:
    services = compose()["services"]
    ours = {name: service for name, service in services.items() if "build" in service}
    assert set(services) - set(ours) == {"postgres", "redis"}
    assert {service["command"][0] for service in ours.values()} == {"api", "worker", "relay", "beat", "migrate"}
    known = {item.metadata["env"] for item in FIELDS}
    for name, service in ours.items():
        assert set(service["environment"]) <= known
        assert name == "migrate" or service["depends_on"]["migrate"]["condition"] == "service_completed_successfully"
        assert name == "migrate" or "healthcheck" in service
        assert "user" not in service, "the image has a user of its own, who isn't root"


def test_compose_has_no_secret_of_its_own_and_listens_on_loopback_alone() -> None:
    text = (ROOT / "docker-compose.yml").read_text("utf-8")
    for name in ("POSTGRES_PASSWORD", "REDIS_PASSWORD", "CORRIGENDA_BOOTSTRAP_TOKEN"):
        assert re.findall(rf"\$\{{{name}[^?}}]*\}}", text) == []
        assert re.findall(rf"\$\{{{name}:\?[^}}]+\}}", text)
    for service in compose()["services"].values():
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", []))


def test_the_procfile_names_commands_that_there_are() -> None:
    lines = dict(line.split(": ", 1) for line in (ROOT / "Procfile").read_text("utf-8").splitlines())
    assert set(lines) == {"release", "web", "worker", "relay", "beat"}
    assert all(line.split()[0] == "corrigenda" and line.split()[1] in COMMANDS for line in lines.values())


def test_the_readme_has_every_setting() -> None:
    rows = re.findall(r"^\| `([A-Z_]+)` \| (.*?) \| (.*?) \|$", (ROOT / "README.md").read_text("utf-8"), re.MULTILINE)
    assert list(rows) == [setting_row(item) for item in FIELDS]


def setting_row(item: Any) -> tuple[str, str, str]:
    """A row of the README's table: the variable, its default, what it means."""
    default = item.default
    shown = {"": "", (): "", False: "`0`", True: "`1`"}.get(default, f"`{default}`")
    secret = " (secret)" if item.metadata["secret"] else ""
    return item.metadata["env"], shown, item.metadata["meaning"] + secret


def test_the_readme_names_every_command() -> None:
    text = (ROOT / "README.md").read_text("utf-8")
    assert [name for name in COMMANDS if f"`corrigenda {name}" not in text] == []

"""``corrigenda up``: the whole service on this machine, as the same processes that a deployment runs."""

from __future__ import annotations

import dataclasses
import http.client
import os
import shlex
import shutil
import sys
import time
from functools import partial
from pathlib import Path

import click

from app import embedded
from app.commands.database import prepare
from app.commands.serve import need_free
from app.config import Settings, read_settings
from app.data_folder import DataFolder, write_private
from app.store.ids import new_secret
from app.supervisor import Program, Stopped, Supervisor

_RECOVERY_SECONDS = 600
_START_SECONDS = 60


@click.command()
@click.option("--host", help="Address to listen on (default: CORRIGENDA_HOST).")
@click.option("--port", type=click.IntRange(1, 65535), help="Port to listen on (default: CORRIGENDA_PORT).")
@click.option("--data", type=click.Path(path_type=Path), help="Folder for everything it keeps (default: ./data).")
def up(host: str | None, port: int | None, data: Path | None) -> None:
    """Run everything on this machine until Ctrl-C.

    Brings its own PostgreSQL and Redis-compatible server unless DATABASE_URL and REDIS_URL are set.
    """
    began = time.monotonic()
    settings = read_settings(os.environ)
    settings = dataclasses.replace(settings, host=host or settings.host, port=port or settings.port)
    folder = DataFolder(data or Path(settings.data))
    held = folder.take(_say)
    need_free(settings.host, settings.port, patience=0.5)
    try:
        with Supervisor(_say, held) as supervisor:
            _Machine(supervisor, folder, settings).start(began)
            supervisor.watch()
            _say("Stopping")
    except Stopped:
        pass
    _say("Stopped")


class _Machine:
    """Brings up what ``settings`` leave to us, in order."""

    def __init__(self, supervisor: Supervisor, folder: DataFolder, settings: Settings) -> None:
        self._supervisor = supervisor
        self._folder = folder
        self._settings = settings

    def start(self, began: float) -> None:
        shutil.rmtree(self._folder.metrics, ignore_errors=True)
        self._start_servers()
        made = self._token()
        prepare(self._settings)
        self._supervisor.wait_until(self._ready, self._start_program("api"), _START_SECONDS)
        for name in ("worker", "relay", "beat"):
            self._start_program(name)
        _say(f"Ready at {self._address} after {time.monotonic() - began:.1f} s; logs are in {self._folder.logs}")
        if made:
            _say(f"The admin token of tenant default is in {made}:")
            token = shlex.quote(str(made))
            click.echo(f'  curl -H "Authorization: Bearer $(cat {token})" {self._address}/v1/me')

    @property
    def _address(self) -> str:
        return f"http://{self._reached}:{self._settings.port}"

    @property
    def _reached(self) -> str:
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self._settings.host, self._settings.host)
        return f"[{host}]" if ":" in host else host

    def _start_servers(self) -> None:
        """Those that aren't set; both at once, since each takes its time."""
        supervisor, settings, folder = self._supervisor, self._settings, self._folder
        waits = []
        if not settings.database_url:
            program, url = embedded.postgres(folder, _say)
            supervisor.start(program)
            waits.append((partial(embedded.postgres_answers, url), program))
            settings = dataclasses.replace(settings, database_url=url)
        if not settings.redis_url:
            program, url = embedded.valkey(folder)
            supervisor.start(program)
            waits.append((partial(embedded.valkey_answers, url), program))
            settings = dataclasses.replace(settings, redis_url=url)
        write_private(folder.database_url, settings.database_url)
        write_private(folder.redis_url, settings.redis_url)
        for answers, program in waits:
            supervisor.wait_until(answers, program, _RECOVERY_SECONDS)
        self._settings = settings

    def _token(self) -> Path | None:
        """Make sure that there is a bootstrap token. Gives the file that it is kept in, if it is ours."""
        note = self._folder.admin_token
        if self._settings.bootstrap_token:
            return None
        if not note.exists():
            write_private(note, new_secret())
        token = note.read_text("utf-8").strip()
        self._settings = dataclasses.replace(self._settings, bootstrap_token=token)
        return note

    def _start_program(self, name: str) -> Program:
        program = Program(
            name,
            (sys.executable, "-P", "-m", "app.cli", name),
            self._folder.logs / f"{name}.log",
            stage=1,
            env=self._environment(),
        )
        self._supervisor.start(program)
        return program

    def _environment(self) -> dict[str, str]:
        settings = self._settings
        return os.environ | {
            "DATABASE_URL": settings.database_url,
            "REDIS_URL": settings.redis_url,
            "CORRIGENDA_HOST": settings.host,
            "CORRIGENDA_PORT": str(settings.port),
            "CORRIGENDA_METRICS_DIR": settings.metrics_dir or str(self._folder.metrics),
        }

    def _ready(self) -> bool:
        connection = http.client.HTTPConnection(self._reached.strip("[]"), self._settings.port, timeout=5)
        try:
            connection.request("GET", "/readyz")
            return connection.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()


def _say(line: str) -> None:
    click.echo(line, err=True)

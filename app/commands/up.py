"""``corrigenda up``: the whole service on this machine, as the same processes that a deployment runs."""

from __future__ import annotations

import dataclasses
import http.client
import os
import shlex
import shutil
import sys
import threading
import time
from functools import partial
from pathlib import Path

import click

from app.commands.broker import BrokerAway, full_policy
from app.commands.database import prepare
from app.commands.serve import need_free
from app.config import Settings, read_settings
from app.data_folder import DataFolder, write_private
from app.demo.account import account, commands
from app.demo.load import Demo
from app.demo.release import release
from app.embedded import postgres, valkey
from app.failure import Failure
from app.remote import Remote
from app.store.engine import plain_url
from app.store.ids import new_secret
from app.supervisor import Program, Stopped, Supervisor
from workers.improve import find_improver

_RECOVERY_SECONDS = 600
_START_SECONDS = 180


@click.command()
@click.option("--host", help="Address to listen on (default: CORRIGENDA_HOST).")
@click.option("--port", type=click.IntRange(1, 65535), help="Port to listen on (default: CORRIGENDA_PORT).")
@click.option("--data", type=click.Path(path_type=Path), help="Folder for everything it keeps (default: ./data).")
@click.option("--demo", is_flag=True, help="Load a small data set and tell what became of it.")
def up(host: str | None, port: int | None, data: Path | None, demo: bool) -> None:
    """Run everything on this machine until Ctrl-C.

    Brings its own PostgreSQL and Redis-compatible server unless DATABASE_URL and REDIS_URL are set.
    """
    began = time.monotonic()
    settings = read_settings(os.environ)
    settings = dataclasses.replace(settings, host=host or settings.host, port=port or settings.port)
    folder = DataFolder(data or Path(settings.data))
    if not folder.path.exists():  # none is made for a start that can't be
        need_free(settings.host, settings.port, patience=0.5)
    with folder.taken(_say) as held:
        need_free(settings.host, settings.port, patience=0.5)
        try:
            with Supervisor(_say, held) as supervisor:
                machine = _Machine(supervisor, folder, settings)
                machine.start(began)
                if demo:
                    machine.show_demo()
                supervisor.watch()
                _say("Stopping")
        except Stopped:
            pass
        finally:
            postgres.forget_sockets(folder)
    _say("Stopped")


class _Machine:
    """Brings up what ``settings`` leave to us, in order."""

    def __init__(self, supervisor: Supervisor, folder: DataFolder, settings: Settings) -> None:
        self._supervisor = supervisor
        self._folder = folder
        self._settings = settings
        self._own_token = not settings.bootstrap_token
        self._own_broker = not settings.redis_url

    def start(self, began: float) -> None:
        shutil.rmtree(self._folder.metrics, ignore_errors=True)
        self._start_servers()
        self._make_token()
        prepare(self._settings)
        self._supervisor.wait_until(self._ready, self._start_program("api"), _START_SECONDS)
        self._start_workers()
        for name in ("relay", "beat"):
            self._start_program(name)
        _say(f"Ready at {self._address} after {time.monotonic() - began:.1f} s; logs are in {self._folder.logs}")
        if self._own_token:
            _say(f"The admin token of tenant default is in {self._folder.admin_token}:")
        click.echo(f'  curl -H "Authorization: Bearer {self._shell_token}" {self._address}/v1/me')
        if not self._own_broker:
            self._look_for_broker()

    def _look_for_broker(self) -> None:
        """Somebody else's may be away; it isn't needed for recording, so that nothing else would say so."""
        try:
            full_policy(self._settings.redis_url)
        except BrokerAway as why:
            _say(f"The broker of REDIS_URL can't be reached ({why}): recording goes on, what follows waits for it")

    def _start_workers(self) -> None:
        """Whoever takes what waits for Improve may take long: it gets a worker of its own."""
        if find_improver(self._settings) is None:
            self._start_program("worker")
        else:
            self._start_program("worker", "worker", "--only", "jobs")
            self._start_program("improve", "worker", "--only", "improve")

    def show_demo(self) -> None:
        """Load and tell beside the supervision, which must go on."""
        threading.Thread(target=self._demo, name="demo", daemon=True).start()

    def _demo(self) -> None:
        token = self._settings.bootstrap_token
        try:
            with Remote(self._address, token) as admin, Demo(admin, self._folder.path / "demo-tokens.json") as demo:
                recorded = demo.load()
                _say(f"The demo's data are in; {recorded} corrections were recorded now")
                told = account(demo), release(demo), commands(demo, self._shell_token)
                click.echo("\n" + "\n\n".join(told) + "\n")
                _say("Serving until Ctrl-C")
        except Failure as error:
            _say(f"The demo stopped: {error}")

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
            program, url = postgres.server(folder, _say)
            supervisor.start(program)
            waits.append((partial(postgres.answers, url), program))
            settings = dataclasses.replace(settings, database_url=url)
        if not settings.redis_url:
            program, url = valkey.server(folder)
            supervisor.start(program)
            waits.append((partial(valkey.answers, url), program))
            settings = dataclasses.replace(settings, redis_url=url)
        write_private(folder.database_url, plain_url(settings.database_url))
        write_private(folder.redis_url, settings.redis_url)
        for answers, program in waits:
            supervisor.wait_until(answers, program, _RECOVERY_SECONDS)
        self._settings = settings

    def _make_token(self) -> None:
        """Without a bootstrap token there is one all the same: made on the first start, and kept."""
        if not self._own_token:
            return
        note = self._folder.admin_token
        if not note.exists():
            write_private(note, new_secret())
        self._settings = dataclasses.replace(self._settings, bootstrap_token=note.read_text("utf-8").strip())

    @property
    def _shell_token(self) -> str:
        """The admin's token in the words of a shell."""
        if self._own_token:
            return f"$(cat {shlex.quote(str(self._folder.admin_token))})"
        return "$CORRIGENDA_BOOTSTRAP_TOKEN"

    def _start_program(self, name: str, *words: str) -> Program:
        """Start the command of that ``name``, or that of ``words``."""
        program = Program(
            name,
            (sys.executable, "-P", "-m", "app.cli", *(words or (name,))),
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

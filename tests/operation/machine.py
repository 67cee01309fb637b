"""``corrigenda up`` as a process of its own."""

from __future__ import annotations

import http.client
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

COMMAND = (sys.executable, "-P", "-m", "app.cli")
READY_SECONDS = 90


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def bare_environment() -> dict[str, str]:
    """The environment without any setting of ours."""
    ours = ("CORRIGENDA_", "DATABASE_URL", "REDIS_URL")
    return {name: value for name, value in os.environ.items() if not name.startswith(ours)}


def corrigenda(*words: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    environment = bare_environment() | (env or {})
    return subprocess.run([*COMMAND, *words], env=environment, capture_output=True, text=True, timeout=120, check=False)


def wait_for(true: Callable[[], bool], seconds: float = 60) -> None:
    """Return when ``true()``; fail after ``seconds``."""
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "it doesn't come true"
        time.sleep(0.1)


def get(port: int, path: str, token: str = "") -> bytes | None:
    """The body of a 200 from this machine, or ``None``."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", path, headers={"Authorization": f"Bearer {token}"} if token else {})
        answer = connection.getresponse()
        return answer.read() if answer.status == 200 else None
    except OSError:
        return None
    finally:
        connection.close()


class Machine:
    """Use as a context: stopped on leaving it."""

    def __init__(self, data: Path, port: int | None = None, *more: str, env: dict[str, str] | None = None) -> None:
        self.data = data
        self.port = port or free_port()
        self._output = data.with_name(data.name + ".output")
        with self._output.open("ab") as output:
            self.process = subprocess.Popen(
                [*COMMAND, "up", "--port", str(self.port), "--data", str(data), *more],
                env=bare_environment() | (env or {}),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )

    def __enter__(self) -> Machine:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.stop()

    @property
    def output(self) -> str:
        return self._output.read_text("utf-8")

    def wait_ready(self, times: int = 1) -> None:
        """Return when it has said so, the ``times``th time that one on this folder does."""
        deadline = time.monotonic() + READY_SECONDS
        while self.output.count("Ready at ") < times:
            assert self.process.poll() is None, self.output
            assert time.monotonic() < deadline, self.output
            time.sleep(0.1)

    def get(self, path: str, token: str = "") -> bytes | None:
        """The body of a 200, or ``None``."""
        return get(self.port, path, token)

    def stop(self, how: signal.Signals = signal.SIGINT) -> int:
        self.process.send_signal(how)
        return self.process.wait(timeout=60)

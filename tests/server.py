"""A PostgreSQL server for one test run, as ``corrigenda up`` runs it, but for durability."""

from __future__ import annotations

import signal
import tempfile
import time
from pathlib import Path

from app.data_folder import DataFolder
from app.embedded import postgres
from app.supervisor import spawn


class Server:
    """Runs from now until ``stop``, or the end of this process. ``url`` is that of its database ``postgres``."""

    def __init__(self) -> None:
        self._place = tempfile.TemporaryDirectory(prefix="corrigenda-tests-")
        self._folder = folder = DataFolder(Path(self._place.name))
        folder.logs.mkdir()
        program, self.url = postgres.server(folder, _quiet, fsync="off", full_page_writes="off")
        self._process = spawn(program)
        while not postgres.answers(self.url):
            assert self._process.poll() is None, program.log.read_text("utf-8")
            time.sleep(0.05)

    def stop(self) -> None:
        self._process.send_signal(signal.SIGINT)
        self._process.wait()
        postgres.forget_sockets(self._folder)
        self._place.cleanup()


def _quiet(_line: str) -> None:
    """Of no interest here."""

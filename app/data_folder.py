"""The folder in which ``corrigenda up`` keeps everything of one machine, and who may use it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

import psutil

from app.failure import Failure

_LEFTOVER_SECONDS = 20.0


class FolderRefused(Failure):
    """The folder can't be used, or not now."""


class DataFolder:
    """Paths of what is in the folder, and its two locks.

    ``up.lock`` is held by ``corrigenda up`` itself and says who it is; ``programs.lock`` also by every program that it
    started, so that those which outlived a killed one are noticed.
    """

    def __init__(self, path: Path) -> None:
        self.path = path.expanduser().resolve()
        self.postgres = self.path / "postgres"
        self.redis = self.path / "redis"
        self.logs = self.path / "logs"
        self.metrics = self.path / "metrics"
        self.database_url = self.path / "database-url"
        self.redis_url = self.path / "redis-url"
        self.admin_token = self.path / "admin-token"

    @contextlib.contextmanager
    def taken(self, say: Callable[[str], None]) -> Iterator[int]:
        """Make the folder, and keep it to ourselves. Gives the descriptor that programs must hold.

        :raises FolderRefused: if it can't be written, or another ``corrigenda up`` uses it.
        """
        try:
            for folder in (self.path, self.redis, self.logs):
                folder.mkdir(parents=True, exist_ok=True)
            ours = (self.path / "up.lock").open("a+", encoding="utf-8")
            theirs = (self.path / "programs.lock").open("a+", encoding="utf-8")
        except OSError as error:
            raise FolderRefused(f"The data folder {self.path} can't be used: {error.strerror}.") from error
        with ours, theirs:
            self._lock_for_us(ours)
            self._outwait_programs(theirs, say)
            yield theirs.fileno()

    def _lock_for_us(self, lock: IO[str]) -> None:
        if not _locked(lock):
            lock.seek(0)
            holder = lock.read().strip()
            raise FolderRefused(
                f"The data folder {self.path} is in use by another `corrigenda up` (process {holder or 'unknown'}): "
                "stop that one, or name another folder with --data."
            )
        lock.truncate(0)
        lock.write(f"{os.getpid()}\n")
        lock.flush()

    def _outwait_programs(self, lock: IO[str], say: Callable[[str], None]) -> None:
        if _locked(lock):
            return
        say("Waiting for programs of an earlier start that was killed")
        deadline = time.monotonic() + _LEFTOVER_SECONDS
        while not _locked(lock):
            if time.monotonic() > deadline:
                self._end(self._holders(), say)
                deadline = time.monotonic() + _LEFTOVER_SECONDS
            time.sleep(0.1)

    def _holders(self) -> list[psutil.Process]:
        """Processes that outlived the ``corrigenda up`` which started them here."""
        path = str(self.path / "programs.lock")
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if process.pid != os.getpid() and any(file.path == path for file in process.open_files()):
                    found.append(process)
        return found

    def _end(self, leftover: list[psutil.Process], say: Callable[[str], None]) -> None:
        pids = ", ".join(str(process.pid) for process in leftover)
        if not leftover:
            raise FolderRefused(f"The data folder {self.path} is held by a process that can't be seen from here.")
        say(f"They don't end; killing them (processes {pids})")
        for process in leftover:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()


def _locked(lock: IO[str]) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def write_private(path: Path, text: str) -> None:
    """Put ``text`` into ``path``, whole or not at all, for its owner's eyes only."""
    fresh = path.with_name(path.name + ".new")
    fresh.unlink(missing_ok=True)
    with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        file.write(text + "\n")
    fresh.replace(path)

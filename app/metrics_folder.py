"""The folder in which processes share their counters, and what becomes of the files of those that ended.

prometheus-client gives each process files of its own and never takes one away. Task processes are replaced and
containers made anew, so the files of ended processes are added up into one of each kind, or they would pile up.
"""

from __future__ import annotations

import fcntl
import os
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from prometheus_client.mmap_dict import MmapedDict

from app import log

_ENDED = "ended"


class Member:
    """This process among those that share ``folder``; after a fork, the new process.

    Each holds a lock as long as it lives: between containers, process ids say nothing about who does.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._pid = 0
        self._name = ""
        self._lock: IO[bytes] | None = None

    def name(self) -> str:
        """What its files are called by. Asked with every count: cheap but for a process's first."""
        if self._pid != os.getpid():
            self._enter()
        return self._name

    def _enter(self) -> None:
        if self._lock is not None:
            self._lock.close()  # the parent's, which keeps holding it
        self._pid = os.getpid()
        self._name = f"{socket.gethostname()}-{self._pid}"
        self._folder.mkdir(parents=True, exist_ok=True)  # somebody may have cleared it away
        self._lock = _held(_lock_of(self._folder, self._name))
        try:
            add_up_ended(self._folder)
        except BlockingIOError:
            return  # somebody is at it, or reads: the next process that begins does it
        except OSError as error:  # whatever is counted now matters more
            log.log.warning("counters of ended processes can't be added up", error=str(error))


@contextmanager
def undisturbed(folder: Path, *, alone: bool = False) -> Iterator[None]:
    """Nobody adds up meanwhile; ``alone``: nor reads.

    :raises BlockingIOError: if it can't be ``alone`` just now.
    """
    with (folder / "folder.turn").open("ab") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX | fcntl.LOCK_NB if alone else fcntl.LOCK_SH)
        yield


def add_up_ended(folder: Path) -> None:
    """Add what ended processes counted to the files of all such, and take theirs away.

    :raises BlockingIOError: if somebody else does, or reads, just now.
    :raises OSError: if a file can't be written or taken away; what was added up until then stays so.
    """
    with undisturbed(folder, alone=True):
        counted = {path.stem.partition("_")[2] for path in folder.glob("*.db")} - {_ENDED}
        for name in sorted(counted | {path.stem for path in folder.glob("*.lock")}):
            with _if_ended(_lock_of(folder, name)) as ended:
                for path in folder.glob(f"*_{name}.db") if ended else ():
                    _add_up(path, folder / f"{path.stem.partition('_')[0]}_{_ENDED}.db")


def _add_up(path: Path, total: Path) -> None:
    try:
        values = [(key, value) for key, value, _, _ in MmapedDict.read_all_values_from_file(path)]  # type: ignore[no-untyped-call]
    except (RuntimeError, struct.error, UnicodeDecodeError) as error:  # it was killed while it made the file
        log.log.warning("counters of an ended process can't be read", file=path.name, error=str(error))
        values = []
    sums = MmapedDict(str(total))  # type: ignore[no-untyped-call]
    try:
        for key, value in values:
            sums.write_value(key, sums.read_value(key)[0] + value, 0.0)  # type: ignore[no-untyped-call]
    finally:
        sums.close()  # type: ignore[no-untyped-call]
    path.unlink()


def _lock_of(folder: Path, name: str) -> Path:
    return folder / f"{name}.lock"


def _held(path: Path) -> IO[bytes]:
    """``path`` locked, for as long as the file is open: the one that has that name now, and not one taken away."""
    while True:
        lock = path.open("ab")
        fcntl.flock(lock, fcntl.LOCK_EX)
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(lock.fileno()), path.stat()):
                return lock
        lock.close()


@contextmanager
def _if_ended(path: Path) -> Iterator[bool]:
    """Whether nobody holds ``path``; then it is held meanwhile, and taken away."""
    with path.open("ab") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True
        path.unlink()

"""Runs programs as children: starts a crashed one again, stops all of them in order, leaves none behind.

Each child leads a process group of its own, so that a Ctrl-C in the terminal reaches the supervisor alone. On Linux
the kernel ends the children when the supervisor is killed. Spawn from the main thread only: the kernel takes the end
of the thread that made a child for the end of its parent.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from app.failure import Failure

_PR_SET_PDEATHSIG = 1
_TICK = 0.05
_LONGEST_DELAY = 30.0
_MOST_DOUBLINGS = 10
_STEADY_SECONDS = 60.0
_LOG_BYTES = 20 * 1024 * 1024


class ProgramFailed(Failure):
    """A program ended, or took too long, before it was of use."""


class Stopped(Exception):
    """A signal asked for the end while something was waited for."""


@dataclass(frozen=True, slots=True)
class Account:
    """The system user that a program runs as."""

    name: str
    uid: int
    gid: int


@dataclass(frozen=True, slots=True)
class Program:
    """What to run. ``stage``: higher ones are stopped first. ``patience``: seconds from ``stop`` to the kill."""

    name: str
    command: tuple[str, ...]
    log: Path
    stage: int
    env: Mapping[str, str] | None = None
    cwd: Path | None = None
    account: Account | None = None
    stop: signal.Signals = signal.SIGTERM
    patience: float = 15.0


@dataclass(slots=True)
class _Child:
    program: Program
    process: subprocess.Popen[bytes]
    since: float
    crashes: int = 0
    due: float | None = None

    @property
    def running(self) -> bool:
        return self.process.poll() is None


class Supervisor:
    """Use as a context: on leaving it, everything that it started has ended.

    ``say`` gets one line an event. Children keep ``held`` (a file descriptor) open as long as they live.
    """

    def __init__(self, say: Callable[[str], None], held: int) -> None:
        self._say = say
        self._held = held
        self._children: list[_Child] = []
        self._signals = 0
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Supervisor:
        for name in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if name != signal.SIGHUP or signal.getsignal(name) != signal.SIG_IGN:
                self._before[name] = signal.signal(name, self._told)
        return self

    def __exit__(self, *_: object) -> None:
        self._stop_all()
        for name, handler in self._before.items():
            signal.signal(name, handler)

    def start(self, program: Program) -> None:
        """Run ``program`` from now until the end."""
        self._children.append(_Child(program, spawn(program, self._held), time.monotonic()))

    def wait_until(self, ready: Callable[[], bool], program: Program, seconds: float) -> None:
        """Return when ``ready()``.

        :raises ProgramFailed: if ``program`` ends first, or after ``seconds``.
        :raises Stopped: if a signal comes first.
        """
        child = next(child for child in self._children if child.program is program)
        deadline = time.monotonic() + seconds
        while not ready():
            if self._signals:
                raise Stopped
            if not child.running:
                raise ProgramFailed(f"{program.name} {_ending(child.process)}: {_last_line(program.log)}")
            if time.monotonic() > deadline:
                raise ProgramFailed(f"{program.name} isn't ready after {seconds:.0f} s; its log is {program.log}.")
            time.sleep(_TICK)

    def watch(self) -> None:
        """Start what crashed again, after ever longer delays, until a signal asks for the end."""
        while not self._signals:
            for child in self._children:
                self._look_after(child)
            time.sleep(_TICK)

    def _look_after(self, child: _Child) -> None:
        now = time.monotonic()
        if child.due is None and not child.running:
            _kill_group(child.process)
            child.crashes = 1 if now - child.since > _STEADY_SECONDS else child.crashes + 1
            self._put_off(child, now, f"{child.program.name} {_ending(child.process)}")
        elif child.due is not None and now >= child.due:
            self._start_again(child, now)
        _shorten(child.program.log)

    def _start_again(self, child: _Child, now: float) -> None:
        """What can't be started now (there is no memory for it) may be later; the others go on meanwhile."""
        try:
            child.process = spawn(child.program, self._held)
        except ProgramFailed as failure:
            child.crashes += 1
            self._put_off(child, now, str(failure))
        else:
            child.since, child.due = now, None

    def _put_off(self, child: _Child, now: float, why: str) -> None:
        delay = min(2.0 ** min(child.crashes - 1, _MOST_DOUBLINGS), _LONGEST_DELAY)
        child.due = now + delay
        self._say(f"{why}; starting it again in {delay:.0f} s. Its log is {child.program.log}")

    def _told(self, _signal: int, _frame: FrameType | None) -> None:
        self._signals += 1

    def _stop_all(self) -> None:
        told = self._signals
        for stage in sorted({child.program.stage for child in self._children}, reverse=True):
            children = [child for child in self._children if child.program.stage == stage]
            for child in children:
                if child.running:
                    child.process.send_signal(child.program.stop)
            for child in children:
                self._await_end(child, told)
        self._children.clear()

    def _await_end(self, child: _Child, told: int) -> None:
        if child.due is not None:
            return  # It crashed and its group is gone; by now the number may be somebody else's.
        deadline = time.monotonic() + child.program.patience
        while child.running and time.monotonic() < deadline and self._signals <= max(told, 1):
            time.sleep(_TICK)
        if child.running:
            self._say(f"{child.program.name} didn't end in time; killing it")
        _kill_group(child.process)
        child.process.wait()


def die_with_parent(parent: int, name: signal.Signals = signal.SIGTERM) -> None:
    """Let the kernel send ``name`` to this process when ``parent`` (which started it) ends. Linux; else nothing."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, int(name), 0, 0, 0)
        if os.getppid() != parent:
            os.kill(os.getpid(), name)


def spawn(program: Program, *held: int) -> subprocess.Popen[bytes]:
    """Start ``program`` in a process group of its own; it ends with us. It keeps the descriptors ``held`` open.

    :raises ProgramFailed: if it can't be started.
    """
    parent, account = os.getpid(), program.account
    try:
        with program.log.open("ab") as log:
            return subprocess.Popen(
                program.command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=program.env,
                cwd=program.cwd,
                user=account.uid if account else None,
                group=account.gid if account else None,
                extra_groups=[] if account else None,
                pass_fds=held,
                start_new_session=True,
                preexec_fn=lambda: die_with_parent(parent, program.stop),
            )
    except OSError as error:
        what = error.filename or program.command[0]
        raise ProgramFailed(f"{program.name} can't be started: {error.strerror}: {what}") from error


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    """End what is left of the group that ``process`` leads or led."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return


def _ending(process: subprocess.Popen[bytes]) -> str:
    code = process.returncode
    if code is not None and code < 0:
        return f"was ended by signal {-code}"
    return f"ended with exit status {code}"


def _last_line(log: Path) -> str:
    lines = [line for line in log.read_text("utf-8", "replace").splitlines() if line.strip()]
    return lines[-1].strip() if lines else "it said nothing"


def _shorten(log: Path) -> None:
    """Move a log that grew large aside. Its writer appends, and so goes on at the start of the emptied file.

    Where it can't be moved (no room) it is emptied all the same, and one that somebody deleted is left to its writer:
    programs must not end for their logs.
    """
    with contextlib.suppress(FileNotFoundError):
        if log.stat().st_size > _LOG_BYTES:
            with contextlib.suppress(OSError):
                shutil.copyfile(log, log.with_suffix(".log.1"))
            os.truncate(log, 0)

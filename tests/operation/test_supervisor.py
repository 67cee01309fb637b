"""The supervisor over small programs, and the data folder's locks."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from app import data_folder, supervisor
from app.data_folder import DataFolder, FolderRefused
from app.supervisor import Program, ProgramFailed, Stopped, Supervisor
from tests.operation.machine import wait_for

STUBBORN = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(60)"
TELLS_ITS_END = (
    "import signal, sys, time\n"
    "def end(*_):\n"
    "    open({path!r}, 'a').write({name!r} + '\\n')\n"
    "    sys.exit()\n"
    "signal.signal(signal.SIGTERM, end)\n"
    "print('up', flush=True)\n"
    "time.sleep(60)\n"
)


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def held() -> Iterator[int]:
    descriptor = os.open(os.devnull, os.O_RDONLY)
    yield descriptor
    os.close(descriptor)


@pytest.fixture
def python(tmp_path: Path) -> Callable[..., Program]:
    """Makes programs: ``python(name, code)``."""

    def program(name: str, code: str, stage: int = 0, patience: float = 10) -> Program:
        return Program(name, (sys.executable, "-c", code), tmp_path / f"{name}.log", stage, patience=patience)

    return program


def is_up(program: Program) -> bool:
    return "up" in program.log.read_text("utf-8")


def test_higher_stages_end_first(tmp_path: Path, said: list[str], held: int, python: Callable[..., Program]) -> None:
    order = tmp_path / "order"
    with Supervisor(said.append, held) as running:
        for name, stage in (("server", 0), ("user", 1)):
            program = python(name, TELLS_ITS_END.format(path=str(order), name=name), stage)
            running.start(program)
            running.wait_until(lambda program=program: is_up(program), program, 30)  # type: ignore[misc]
    assert order.read_text("utf-8").split() == ["user", "server"]
    assert said == []


def test_what_does_not_end_is_killed(said: list[str], held: int, python: Callable[..., Program]) -> None:
    program = python("stubborn", STUBBORN, patience=0.2)
    with Supervisor(said.append, held) as running:
        running.start(program)
        running.wait_until(lambda: is_up(program), program, 30)
        child = psutil.Process().children()[-1]
    assert not child.is_running()
    assert said == ["stubborn didn't end in time; killing it"]


def test_a_program_that_ends_while_waited_for_says_its_last_words(
    said: list[str], held: int, python: Callable[..., Program]
) -> None:
    program = python("broken", "import sys; sys.exit('no port left')")
    with Supervisor(said.append, held) as running:
        running.start(program)
        with pytest.raises(ProgramFailed, match="broken ended with exit status 1: no port left"):
            running.wait_until(lambda: False, program, 30)


def test_a_program_that_takes_too_long_is_named(said: list[str], held: int, python: Callable[..., Program]) -> None:
    program = python("slow", "import time; time.sleep(60)")
    with Supervisor(said.append, held) as running:
        running.start(program)
        with pytest.raises(ProgramFailed, match="slow isn't ready after 0 s"):
            running.wait_until(lambda: False, program, 0.1)


def test_a_signal_ends_waiting_and_watching(said: list[str], held: int, python: Callable[..., Program]) -> None:
    program = python("slow", "import time; time.sleep(60)")
    with Supervisor(said.append, held) as running:
        running.start(program)
        threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGTERM)).start()
        with pytest.raises(Stopped):
            running.wait_until(lambda: False, program, 30)
        running.watch()
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


def test_a_crash_is_said_and_delays_grow(
    monkeypatch: pytest.MonkeyPatch, said: list[str], held: int, python: Callable[..., Program]
) -> None:
    program = python("crashes", "pass")
    with Supervisor(said.append, held) as running:
        running.start(program)
        threading.Thread(target=lambda: (wait_for(lambda: len(said) >= 3), os.kill(os.getpid(), signal.SIGINT))).start()
        running.watch()
    assert re.findall(r"again in (\d+) s\.", "".join(said)) == ["1", "2", "4"]


def test_what_crashes_for_days_is_still_started_again(
    said: list[str], held: int, python: Callable[..., Program]
) -> None:
    with Supervisor(said.append, held) as running:
        running.start(python("crashes", "pass"))
        running._children[0].crashes = 10_000
        threading.Thread(target=lambda: (wait_for(lambda: bool(said)), os.kill(os.getpid(), signal.SIGINT))).start()
        running.watch()
    assert "starting it again in 30 s" in said[0]


def test_what_cannot_be_started_again_is_tried_again(tmp_path: Path, said: list[str], held: int) -> None:
    script, aside = tmp_path / "script", tmp_path / "aside"
    script.write_text("#!/bin/sh\necho up\n", "utf-8")
    script.chmod(0o700)
    program = Program("script", (str(script),), tmp_path / "script.log", 0)

    def repair() -> None:
        wait_for(lambda: any("can't be started" in line for line in said))
        aside.rename(script)
        wait_for(lambda: program.log.read_text("utf-8").count("up") >= 2)
        os.kill(os.getpid(), signal.SIGINT)

    with Supervisor(said.append, held) as running:
        running.start(program)
        wait_for(lambda: is_up(program))
        script.rename(aside)
        threading.Thread(target=repair).start()
        running.watch()
    assert re.findall(r"again in (\d+) s\.", "".join(said[:2])) == ["1", "2"]
    assert said[1].startswith(f"script can't be started: No such file or directory: {script}; ")


def test_a_large_log_is_moved_aside_under_its_writer(
    monkeypatch: pytest.MonkeyPatch, said: list[str], held: int, python: Callable[..., Program]
) -> None:
    monkeypatch.setattr(supervisor, "_LOG_BYTES", 1000)
    program = python("talker", "import time\nfor n in range(10**6): print('line', n, flush=True); time.sleep(0.001)")
    aside = program.log.with_suffix(".log.1")
    with Supervisor(said.append, held) as running:
        running.start(program)
        threading.Thread(target=lambda: (wait_for(aside.exists), os.kill(os.getpid(), signal.SIGINT))).start()
        running.watch()
    assert "line 0\n" in aside.read_text("utf-8")
    assert "\x00" not in program.log.read_text("utf-8")


def test_a_log_that_is_deleted_or_cannot_be_moved_ends_nothing(
    monkeypatch: pytest.MonkeyPatch, said: list[str], held: int, python: Callable[..., Program]
) -> None:
    monkeypatch.setattr(supervisor, "_LOG_BYTES", 1000)
    deleted = python("deleted", "print('up', flush=True); import time; time.sleep(60)")
    stuck = python("stuck", "print('up', 'x' * 2000, flush=True); import time; time.sleep(60)")
    stuck.log.with_suffix(".log.1").mkdir()
    with Supervisor(said.append, held) as running:
        for program in (deleted, stuck):
            running.start(program)
            running.wait_until(lambda program=program: is_up(program), program, 30)  # type: ignore[misc]
        deleted.log.unlink()
        emptied = lambda: stuck.log.stat().st_size == 0  # noqa: E731
        threading.Thread(target=lambda: (wait_for(emptied), os.kill(os.getpid(), signal.SIGINT))).start()
        running.watch()
    assert said == []


def test_a_folder_serves_one_at_a_time(tmp_path: Path, said: list[str]) -> None:
    folder = DataFolder(tmp_path / "data")
    for _ in range(2):
        with (
            folder.taken(said.append),
            pytest.raises(FolderRefused, match=rf"process {os.getpid()}"),
            DataFolder(tmp_path / "data").taken(said.append),
        ):
            pass
    assert said == []


def test_what_outlived_an_earlier_start_is_ended(
    tmp_path: Path, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(data_folder, "_LEFTOVER_SECONDS", 0.3)
    folder = DataFolder(tmp_path / "data")
    with folder.taken(said.append) as held:
        leftover = subprocess.Popen(["sleep", "60"], pass_fds=(held,))
    with leftover, folder.taken(said.append):
        assert leftover.wait(10) == -signal.SIGKILL
    assert said[1] == f"They don't end; killing them (processes {leftover.pid})"

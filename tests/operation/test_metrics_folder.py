"""Counters shared by processes: what ended ones counted stays, their files don't."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from app.metrics_folder import undisturbed

PREAMBLE = "import os, sys\nfrom app import metrics\nmetrics.share(sys.argv[1])\n"
SHOWS = "sys.stdout.write(metrics.exposed().decode())"

Counting = Callable[[str], str]


@pytest.fixture
def counting(tmp_path: Path) -> Counting:
    """Runs code in a process of its own that shares the folder; what it writes."""

    def run(code: str) -> str:
        command = [sys.executable, "-c", PREAMBLE + code, str(tmp_path)]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    return run


def sent(page: str) -> float:
    (found,) = re.findall(r'^corrigenda_sent_jobs_total\{job="a"\} (\S+)$', page, re.MULTILINE)
    return float(found)


def counters(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("counter_*.db"))


def test_what_ended_processes_counted_is_kept_in_one_file(tmp_path: Path, counting: Counting) -> None:
    for number in (1, 2, 3):
        counting(f"metrics.sent('a', {number}); metrics.task('t', 'done', 0.1)")
    page = counting(SHOWS)
    assert sent(page) == 6
    assert re.search(r'^corrigenda_task_seconds_count\{task="t"\} 3\.0$', page, re.MULTILINE)
    assert counters(tmp_path) == ["counter_ended.db"]


def test_replaced_forks_leave_no_files(tmp_path: Path, counting: Counting) -> None:
    page = counting(
        "metrics.sent('a', 1)\n"
        "for number in range(5):\n"
        "    if not (child := os.fork()):\n"
        "        metrics.sent('a', 1)\n"
        "        os._exit(0)\n"
        "    os.waitpid(child, 0)\n"
        "metrics.sent('a', 1)\n" + SHOWS
    )
    assert sent(page) == 7
    assert len(counters(tmp_path)) == 3  # the parent's, the last fork's, and those of the others
    assert len(list(tmp_path.glob("*.lock"))) == 2


def test_who_lives_keeps_its_file_and_counts_on(tmp_path: Path, counting: Counting) -> None:
    code = "metrics.sent('a', 1); print('ready', flush=True); input(); metrics.sent('a', 1)"
    command = [sys.executable, "-c", PREAMBLE + code, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as living:
        assert living.stdout is not None
        assert living.stdout.readline() == "ready\n"
        own = [name for name in counters(tmp_path) if str(living.pid) in name]
        assert sent(counting(SHOWS)) == 1
        assert set(own) <= set(counters(tmp_path))
        living.communicate("\n")
    assert sent(counting(SHOWS)) == 2


def test_a_file_that_was_never_finished_harms_nobody(tmp_path: Path, counting: Counting) -> None:
    (tmp_path / "counter_gone-1.db").touch()
    assert sent(counting("metrics.sent('a', 1);" + SHOWS)) == 1
    assert not (tmp_path / "counter_gone-1.db").exists()


def test_nobody_waits_to_add_up(tmp_path: Path, counting: Counting) -> None:
    counting("metrics.sent('a', 1)")
    with undisturbed(tmp_path):
        assert sent(counting("metrics.sent('a', 1);" + SHOWS)) == 2
        assert "counter_ended.db" not in counters(tmp_path)
    assert sent(counting(SHOWS)) == 2
    assert counters(tmp_path) == ["counter_ended.db"]

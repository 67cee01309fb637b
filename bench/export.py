"""Streams of any size through the real server: time to the first byte, rows a second, and memory while they run.

``python -m bench.export`` takes a few minutes and two gigabytes; ``--smoke`` takes half a minute and only shows that
it runs.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import threading
import time
from dataclasses import dataclass

import psutil
import psycopg2

from bench.filling import fill
from bench.stage import Database, api, cpu_seconds, new_database, postgres

# Hexadecimal digests hardly compress: a copy costs what it weighs.
_LARGE_COPIES = """
UPDATE copies o SET output = '{"answer":"' ||
       (SELECT string_agg(md5(o.run_id || i), '') FROM generate_series(1, %s / 32) i) || '"}'
"""

STREAMS = {
    "corrections, jsonl": "/v1/corrections/export?format=jsonl",
    "corrections, csv": "/v1/corrections/export?format=csv",
    "one agent's corrections, jsonl": "/v1/corrections/export?format=jsonl&agentId=agent-3",
}
CASES = {
    "cases, jsonl": "/v1/test-sets/export?format=jsonl",
    "one project's cases, jsonl": "/v1/test-sets/export?format=jsonl&projectId=project-3",
    "cases, openai-evals": "/v1/test-sets/export?format=openai-evals",
    "cases, promptfoo": "/v1/test-sets/export?format=promptfoo",
}


@dataclass(frozen=True)
class Streamed:
    """Times in seconds, memory in bytes: what the server's processes had before, and at most meanwhile."""

    first_byte: float
    seconds: float
    size: int
    lines: int
    memory_before: int
    memory_peak: int
    app_seconds: float


class Watch:
    """The most memory that a process and those below it had in any moment of the block."""

    def __init__(self, pid: int) -> None:
        self._processes = [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
        self.before = self.peak = self._memory()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def _memory(self) -> int:
        return sum(process.memory_info().rss for process in self._processes)

    def _look(self) -> None:
        while not self._over.wait(0.02):
            self.peak = max(self.peak, self._memory())

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()


def download(port: int, token: str, path: str, app_pid: int) -> Streamed:
    """Read all that ``path`` answers."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    with Watch(app_pid) as watch, contextlib.closing(connection):
        cpu, started = cpu_seconds(app_pid), time.perf_counter()
        connection.request("GET", path, headers={"Authorization": f"Bearer {token}"})
        answer = connection.getresponse()
        assert answer.status == 200, answer.read()
        size, lines, first_byte = 0, 0, 0.0
        while part := answer.read(1 << 16):
            first_byte = first_byte or time.perf_counter() - started
            size += len(part)
            lines += part.count(b"\n")
        seconds = time.perf_counter() - started
        spent = cpu_seconds(app_pid) - cpu
    return Streamed(first_byte, seconds, size, lines, watch.before, watch.peak, spent)


def show(name: str, done: Streamed) -> None:
    mb = 1 << 20
    print(
        f"| {name} | {done.lines:,} | {done.size / mb:,.0f} | {done.first_byte * 1000:,.0f} | {done.seconds:.1f}"
        f" | {done.lines / done.seconds:,.0f} | {done.app_seconds / max(done.lines, 1) * 1e6:.0f}"
        f" | {(done.memory_peak - done.memory_before) / mb:.1f} |"
    )


HEADINGS = """
| stream | lines | MB | first byte ms | seconds | lines/s | application CPU µs a line | memory grew by MB |
|---|---|---|---|---|---|---|---|"""


def run(database: Database, streams: dict[str, str]) -> None:
    with api(database) as (port, app_pid):
        for path in streams.values():
            connection = http.client.HTTPConnection("127.0.0.1", port)
            connection.request("HEAD", path, headers={"Authorization": f"Bearer {database.token}"})
            connection.getresponse().read()
        for name, path in streams.items():
            show(name, download(port, database.token, path, app_pid))


def main() -> None:
    """Fill, download, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--corrections", type=int, default=220_000, help="of 13 of them, one is removed")
    parser.add_argument("--cases", type=int, default=20_000)
    parser.add_argument("--copy-bytes", type=int, default=20_000)
    parser.add_argument("--smoke", action="store_true", help="seconds instead of minutes; the numbers say nothing")
    options = parser.parse_args()
    if options.smoke:
        options.corrections, options.cases = 4_000, 400
    with postgres() as server:
        print(HEADINGS)
        database = new_database(server, "corrections")
        fill(database, options.cases, options.corrections)
        run(database, STREAMS)
        database = new_database(server, "cases")
        fill(database, options.cases, 2 * options.cases)
        with contextlib.closing(psycopg2.connect(database.url)) as connection:
            connection.autocommit = True
            connection.cursor().execute(_LARGE_COPIES, (options.copy_bytes,))
            connection.cursor().execute("VACUUM ANALYZE copies")
        run(database, CASES)


if __name__ == "__main__":
    main()

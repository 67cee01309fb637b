"""A load generator: keep-alive connections, one request at a time on each, in one process and one thread.

``python -m bench.load`` reads a ``Plan`` as JSON from standard input. It prints ``go`` when its warm-up is over and the
measured time starts, and the ``Outcome`` as JSON when that ends.
"""

from __future__ import annotations

import json
import selectors
import socket
import sys
import time
from collections import Counter
from dataclasses import asdict, dataclass, field


@dataclass
class Plan:
    """What to send: ``@N`` in heads and bodies stands for the number of the request, counted from ``first``."""

    port: int
    requests: list[tuple[str, str, str]]
    """Method, path, body of each kind of request, taken in turn."""
    headers: dict[str, str]
    connections: int = 16
    warm_seconds: float = 1.0
    seconds: float = 5.0
    first: int = 0


@dataclass
class Outcome:
    """Times in milliseconds, of requests that ended in the measured time. ``last``: the next number to use."""

    seconds: float
    requests: int
    p50: float
    p99: float
    statuses: dict[str, int]
    last: int

    @property
    def rate(self) -> float:
        return self.requests / self.seconds


@dataclass
class Connection:
    socket: socket.socket
    started: float = 0.0
    received: bytearray = field(default_factory=bytearray)


class Generator:
    """Sends the plan's requests for its time."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._number = plan.first
        self._kinds = [self._template(*request) for request in plan.requests]
        self._selector = selectors.DefaultSelector()

    def _template(self, method: str, path: str, body: str) -> tuple[bytes, bytes]:
        lines = [f"{method} {path} HTTP/1.1", "Host: bench", *(f"{n}: {v}" for n, v in self._plan.headers.items())]
        return ("\r\n".join(lines) + "\r\n").encode(), body.encode()

    def _next(self) -> bytes:
        head, body = self._kinds[self._number % len(self._kinds)]
        number = b"%d" % self._number
        self._number += 1
        content = body.replace(b"@N", number)
        return head.replace(b"@N", number) + b"Content-Length: %d\r\n\r\n%b" % (len(content), content)

    def _send(self, connection: Connection) -> None:
        connection.started = time.perf_counter()
        connection.socket.sendall(self._next())

    def run(self) -> Outcome:
        for _ in range(self._plan.connections):
            opened = socket.create_connection(("127.0.0.1", self._plan.port))
            opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection = Connection(opened)
            self._selector.register(opened, selectors.EVENT_READ, connection)
            self._send(connection)
        self._until(time.perf_counter() + self._plan.warm_seconds)
        print("go", flush=True)
        started = time.perf_counter()
        times, statuses = self._until(started + self._plan.seconds)
        took = time.perf_counter() - started
        times.sort()
        return Outcome(took, len(times), _share(times, 0.5), _share(times, 0.99), dict(statuses), self._number)

    def _until(self, end: float) -> tuple[list[float], Counter[str]]:
        times: list[float] = []
        statuses: Counter[str] = Counter()
        while time.perf_counter() < end:
            for key, _ in self._selector.select(0.1):
                connection = key.data
                connection.received += connection.socket.recv(1 << 17)
                status = _whole(connection.received)
                if status is None:
                    continue
                times.append((time.perf_counter() - connection.started) * 1000)
                statuses[status] += 1
                connection.received.clear()
                self._send(connection)
        return times, statuses


def _whole(received: bytearray) -> str | None:
    """The status of the answer in ``received``, once all of it is there."""
    end = received.find(b"\r\n\r\n")
    if end < 0:
        return None
    head = bytes(received[:end]).lower()
    at = head.find(b"content-length:")
    length = int(head[at + 15 :].split(b"\r\n", 1)[0]) if at >= 0 else 0
    return head[9:12].decode() if len(received) >= end + 4 + length else None


def _share(ordered: list[float], share: float) -> float:
    return round(ordered[min(len(ordered) - 1, int(len(ordered) * share))], 2) if ordered else 0.0


if __name__ == "__main__":
    print(json.dumps(asdict(Generator(Plan(**json.load(sys.stdin))).run())), flush=True)

"""A receiver of webhooks on this machine, that answers what a test tells it to."""

from __future__ import annotations

import base64
import hashlib
import hmac
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

HANG, DRIP, DRIP_BODY = "hang", "drip", "drip-body"
"""Never answer; send one byte of an answer's headers, or of its body, now and then, for ever."""


@dataclass(frozen=True, slots=True)
class Received:
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Receiver:
    """``answers`` are given in turn, the last of them for ever: a status, a status with headers, ``HANG``, ``DRIP``,
    ``DRIP_BODY``, or the bytes of an answer.
    """

    url: str
    answers: list[Any]
    received: list[Received] = field(default_factory=list)
    closing: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2].partition("/")[0])

    def take(self, received: Received) -> Any:
        with self.lock:
            self.received.append(received)
            return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


@contextmanager
def receiving(*answers: Any, tls: ssl.SSLContext | None = None, host: str = "127.0.0.1") -> Iterator[Receiver]:
    """A receiver on a free port of ``host``."""
    receiver = Receiver("", list(answers) or [200])

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            headers = {name.lower(): value for name, value in self.headers.items()}
            self.answer(receiver.take(Received(self.path, headers, body)))

        def answer(self, how: Any) -> None:
            if how == HANG:
                receiver.closing.wait(60)
                self.close_connection = True
            elif how in (DRIP, DRIP_BODY):
                self.drip(b"HTTP/1.1 200 OK\r\nX-Slow: " + (b"\r\n\r\n" if how == DRIP_BODY else b""))
            elif isinstance(how, bytes):
                self.wfile.write(how)
                self.close_connection = True
            else:
                status, headers = how if isinstance(how, tuple) else (how, {})
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.end_headers()

        def drip(self, start: bytes) -> None:
            self.close_connection = True
            try:
                self.wfile.write(start)
                while not receiver.closing.wait(0.1):
                    self.wfile.write(b"x")
            except OSError:
                return

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer((host, 0), Handler)
    server.daemon_threads = False
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    receiver.url = f"{'https' if tls else 'http'}://{host}:{server.server_port}/hook"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield receiver
    finally:
        receiver.closing.set()
        server.shutdown()
        thread.join()
        server.server_close()


def signed_by(secret: str, received: Received) -> bool:
    """Whether ``secret`` signed it, by the words of the Standard Webhooks specification and no library."""
    key = base64.b64decode(secret.removeprefix("whsec_"))
    content = f"{received.headers['webhook-id']}.{received.headers['webhook-timestamp']}.".encode() + received.body
    expected = base64.b64encode(hmac.new(key, content, hashlib.sha256).digest()).decode()
    given = [part.split(",", 1) for part in received.headers["webhook-signature"].split(" ")]
    return any(version == "v1" and hmac.compare_digest(value, expected) for version, value in given)

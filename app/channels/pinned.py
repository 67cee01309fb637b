"""One HTTP POST to an address that was checked, and to no other.

The name is looked up once and the connection goes to that very address, so that no second look-up can lead elsewhere;
TLS still asks for the name. No redirect is followed, no proxy of the environment used, nothing takes over 15 seconds.
"""

from __future__ import annotations

import contextlib
import functools
import http.client
import socket
import ssl
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass

from app.domain.targets import HttpTarget

CONNECT_SECONDS = 5
TOTAL_SECONDS = 15
MOST_BYTES = 4096


class Failed(Exception):
    """No answer came. The message says why and repeats nothing that the other side sent."""


@dataclass(frozen=True, slots=True)
class Reply:
    """``body``: its first ``MOST_BYTES``."""

    status: int
    retry_after: int | None = None
    body: bytes = b""


@functools.cache
def system_trust() -> ssl.SSLContext:
    """TLS as this machine trusts it."""
    return ssl.create_default_context()


def post(
    target: HttpTarget,
    addresses: Sequence[str],
    headers: dict[str, str],
    body: bytes,
    trust: ssl.SSLContext | None = None,
    total_seconds: float = TOTAL_SECONDS,
) -> Reply:
    """Send ``body`` to ``target`` at the first of ``addresses`` that takes the connection.

    :raises Failed: if no answer came in time, whatever was sent.
    """
    connection = _Connection(target, addresses, trust or system_trust(), time.monotonic() + total_seconds)
    timer = threading.Timer(total_seconds, connection.cut)
    timer.daemon = True
    timer.start()
    try:
        connection.request("POST", target.path, body, headers)
        response = connection.getresponse()
        if connection.was_cut:  # an answer that ends among its headers looks whole
            raise TimeoutError
        return _reply(response)
    except (OSError, http.client.HTTPException) as error:
        raise Failed("timed out" if connection.was_cut else _why(error)) from None
    finally:
        timer.cancel()
        connection.close()


def _reply(response: http.client.HTTPResponse) -> Reply:
    # The status is what counts; a little of the rest is read so that the receiver can finish its answer.
    body = b""
    with contextlib.suppress(OSError, http.client.HTTPException):
        body = response.read(MOST_BYTES)
    return Reply(response.status, _seconds(response.getheader("Retry-After")), body)


class _Response(http.client.HTTPResponse):
    """The final answer. Interim ones may come before it (RFC 9110, 15.2); the base class skips ``100`` alone."""

    def begin(self) -> None:
        super().begin()
        while 100 <= self.status < 200 and self.status != http.client.SWITCHING_PROTOCOLS:
            self.headers = None  # type: ignore[assignment]  # the base class begins once, by this sign
            super().begin()


class _Connection(http.client.HTTPConnection):
    """A connection to given addresses instead of to what the host's name says now."""

    response_class = _Response

    def __init__(self, target: HttpTarget, addresses: Sequence[str], trust: ssl.SSLContext, deadline: float) -> None:
        super().__init__(target.host, target.port)
        self._target, self._addresses, self._trust, self._deadline = target, addresses, trust, deadline
        self.was_cut = False
        # Kept beside ``sock``, which is forgotten as soon as the headers of a last answer are read.
        self._wire: socket.socket | None = None
        if target.tls:
            self.default_port = http.client.HTTPS_PORT

    def connect(self) -> None:
        self.sock = self._wire = self._reach()
        if self._target.tls:
            # The handshake comes second, so that ``cut`` finds the socket that waits in it.
            self.sock = self._wire = self._trust.wrap_socket(
                self.sock, server_hostname=self._target.host, do_handshake_on_connect=False
            )
            self.sock.do_handshake()
        self.sock.settimeout(self._remaining())

    def _reach(self) -> socket.socket:
        for address in self._addresses:
            try:
                wait = min(CONNECT_SECONDS, self._remaining())
                return socket.create_connection((address, self._target.port), timeout=wait)
            except OSError as error:
                failure = error
        raise failure

    def _remaining(self) -> float:
        remaining = self._deadline - time.monotonic()
        if remaining <= 0:
            raise TimeoutError
        return remaining

    def cut(self) -> None:
        """End whatever waits on the socket, from another thread: time-outs of sockets start anew with each byte."""
        self.was_cut = True
        if self._wire is not None:
            with contextlib.suppress(OSError):
                self._wire.shutdown(socket.SHUT_RDWR)


def _why(error: OSError | http.client.HTTPException) -> str:
    if isinstance(error, TimeoutError):
        return "timed out"
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"TLS certificate not trusted: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        return f"TLS failed: {error.reason or 'connection closed'}"
    if isinstance(error, OSError):
        return f"connection failed: {(error.strerror or 'closed without an answer').lower()}"
    return f"no HTTP answer: {type(error).__name__}"


def _seconds(retry_after: str | None) -> int | None:
    known = retry_after is not None and retry_after.isascii() and retry_after.isdigit() and len(retry_after) < 10
    return int(retry_after or 0) if known else None

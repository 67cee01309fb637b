from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

import pytest

from app.channels import email
from app.channels.email import MailServer
from app.domain.delivering import Outcome, Parcel

BODY = '{"type":"notification.test","timestamp":"2026-11-30T12:00:00.000Z","data":{"endpointId":"e"}}'


@contextmanager
def speaking(say: Callable[[socket.socket, threading.Event], None]) -> Iterator[int]:
    """A server that does ``say`` with its first caller; its port."""
    done = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            line, _ = listening.accept()
            with line:
                try:
                    say(line, done)
                except OSError:
                    return

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield listening.getsockname()[1]
        finally:
            done.set()
            thread.join(5)


def sent(url: str, seconds: float = 5) -> Outcome:
    parcel = Parcel("t", "d", "e", "email", "ann@example.com", BODY)
    now = datetime(2026, 11, 30, tzinfo=UTC)
    return email.send(parcel, MailServer.of(url), "c@corrigenda.test", "", now, seconds)


def drip(line: socket.socket, done: threading.Event) -> None:
    while not done.wait(0.05):
        line.sendall(b"2")


def greet_for_ever(line: socket.socket, done: threading.Event) -> None:
    while not done.wait(0.05):
        line.sendall(b"220-be patient\r\n")


def say_nothing(line: socket.socket, done: threading.Event) -> None:
    done.wait(20)


def drip_after_starttls(line: socket.socket, done: threading.Event) -> None:
    line.sendall(b"220 hello\r\n")
    line.recv(1024)
    line.sendall(b"250-here\r\n250 STARTTLS\r\n")
    line.recv(1024)
    line.sendall(b"220 go\r\n")
    line.recv(4096)
    drip_tls(line, done)


def drip_tls(line: socket.socket, done: threading.Event) -> None:
    line.sendall(b"\x16\x03\x03\x3f\x00")
    while not done.wait(0.05):
        line.sendall(b"\x00")


@pytest.mark.parametrize(
    ("scheme", "say"),
    [
        ("smtp", drip),
        ("smtp", greet_for_ever),
        ("smtp", say_nothing),
        ("smtps", drip_tls),
        ("smtps", say_nothing),
        ("smtp+starttls", drip_after_starttls),
    ],
)
def test_no_mail_takes_longer_than_its_time(scheme: str, say: Callable[[socket.socket, threading.Event], None]) -> None:
    with speaking(say) as port:
        started = time.monotonic()
        outcome = sent(f"{scheme}://127.0.0.1:{port}", 0.5)
        assert time.monotonic() - started < 3
    assert (outcome.error, outcome.delivered) == ("the mail server took too long", False)


@pytest.mark.parametrize("leave", [b"221 bye\r\n", b"421 I never liked you\r\n", b"\xff\r\n", b""])
def test_a_mail_that_was_taken_is_taken_however_the_server_parts(leave: bytes) -> None:
    def take(line: socket.socket, done: threading.Event) -> None:
        line.sendall(b"220 hello\r\n")
        with line.makefile("rb") as said:
            for words in map(bytes.upper, said):
                if words.startswith(b"DATA"):
                    line.sendall(b"354 go on\r\n")
                    while said.readline() != b".\r\n":
                        continue
                elif words.startswith(b"QUIT"):
                    line.sendall(leave)
                    return
                line.sendall(b"250 yes\r\n")

    with speaking(take) as port:
        outcome = sent(f"smtp://127.0.0.1:{port}")
    assert (outcome.error, outcome.delivered) == (None, True)


@pytest.mark.parametrize(
    ("said", "error"),
    [
        (b"421 go away\r\n", "the mail server answered 421"),
        (b"\xff\xfe no server of mail\r\n", "the mail server failed: SMTPConnectError"),
        (b"", "the mail server failed: SMTPServerDisconnected"),
    ],
)
def test_a_server_that_takes_no_mail_is_named(said: bytes, error: str) -> None:
    with speaking(lambda line, done: line.sendall(said)) as port:
        assert sent(f"smtp://127.0.0.1:{port}").error == error


def test_a_closed_port_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    assert sent(f"smtp://127.0.0.1:{port}").error == "the mail server can't be reached: Connection refused"

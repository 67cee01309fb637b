from __future__ import annotations

import socket
import ssl
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from app.channels.guard import Guard, Unresolvable, system_resolve
from app.channels.http import Http
from app.channels.pinned import Failed
from app.domain.targets import TargetRefused
from tests.receiver import DRIP, DRIP_BODY, HANG, Receiver, receiving


def known_as(*addresses: str) -> Guard:
    """A guard for which every name has ``addresses``, and private ones are open."""
    return Guard(True, lambda host, port: list(addresses))


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving(200) as running:
        yield running


def test_the_connection_goes_to_the_address_that_was_checked(receiver: Receiver) -> None:
    url = f"http://hooks.test:{receiver.port}/a?b=c"
    outcome = Http(known_as("127.0.0.1")).post_json(url, '{"x":"ü"}', {"X-More": "1"})
    assert (outcome.status, outcome.error, outcome.delivered) == (200, None, True)
    (received,) = receiver.received
    assert received.path == "/a?b=c"
    assert received.body == '{"x":"ü"}'.encode()
    assert received.headers["host"] == f"hooks.test:{receiver.port}"
    assert received.headers["content-type"] == "application/json"
    assert received.headers["x-more"] == "1"
    assert received.headers["user-agent"] == "Corrigenda"


def test_a_name_that_changes_its_address_leads_nowhere(receiver: Receiver) -> None:
    answers = iter([["93.184.215.14"], ["127.0.0.1"]])
    guard = Guard(False, lambda host, port: next(answers))
    url = f"http://rebind.test:{receiver.port}/"
    assert guard.check(url).host == "rebind.test", "public when it is registered"
    with pytest.raises(TargetRefused, match=r"127\.0\.0\.1 is not a public address"):
        Http(guard).post_json(url, "{}")
    assert receiver.received == []
    assert next(answers, None) is None, "asked once for the connection"


def test_a_public_answer_is_what_is_connected_to(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    reached = []

    def connect(address: tuple[str, int], timeout: float) -> socket.socket:
        reached.append(address)
        raise ConnectionRefusedError(111, "Connection refused")

    monkeypatch.setattr(socket, "create_connection", connect)
    http = Http(Guard(False, lambda host, port: ["93.184.215.14", "2606:4700::1111"]))
    with pytest.raises(Failed, match="connection refused"):
        http.post_json("https://hooks.test/", "{}")
    assert reached == [("93.184.215.14", 443), ("2606:4700::1111", 443)], "each in turn, by its number"


def test_one_private_address_among_public_ones_refuses_all(receiver: Receiver) -> None:
    http = Http(Guard(False, lambda host, port: ["93.184.215.14", "10.0.0.1"]))
    with pytest.raises(TargetRefused):
        http.post_json(f"http://mixed.test:{receiver.port}/", "{}")


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]", "localhost", "[::ffff:127.0.0.1]", "2130706433", "0x7f.1"])
def test_this_machine_is_refused_however_it_is_spelled(receiver: Receiver, host: str) -> None:
    with pytest.raises(TargetRefused):
        Http(Guard()).post_json(f"http://{host}:{receiver.port}/", "{}")
    assert receiver.received == []


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirects_are_not_followed(receiver: Receiver, status: int) -> None:
    with receiving((status, {"Location": receiver.url})) as moved:
        outcome = Http(Guard(True)).post_json(moved.url, "{}")
    assert (outcome.status, outcome.error) == (status, "redirects are not followed")
    assert not outcome.delivered
    assert receiver.received == []


@pytest.mark.parametrize("how", [HANG, DRIP])
def test_nothing_takes_longer_than_its_time(how: str) -> None:
    with receiving(how) as slow:
        started = time.monotonic()
        with pytest.raises(Failed, match="timed out"):
            Http(Guard(True), total_seconds=0.6).post_json(slow.url, "{}")
        assert time.monotonic() - started < 2


@pytest.mark.parametrize("interim", ["100 Continue", "102 Processing", "103 Early Hints"])
@pytest.mark.parametrize(("last", "delivered"), [("204 No Content", True), ("410 Gone", False), ("101 Odd", False)])
def test_an_interim_answer_is_not_the_answer(interim: str, last: str, delivered: bool) -> None:
    answer = f"HTTP/1.1 {interim}\r\nLink: </x>\r\n\r\n" * 3 + f"HTTP/1.1 {last}\r\nRetry-After: 7\r\n\r\n"
    with receiving(answer.encode()) as early:
        outcome = Http(Guard(True)).post_json(early.url, "{}")
    assert (outcome.status, outcome.retry_after, outcome.delivered) == (int(last[:3]), 7, delivered)


def test_an_interim_answer_alone_is_none() -> None:
    with receiving(b"HTTP/1.1 103 Early Hints\r\n\r\n") as early, pytest.raises(Failed, match="without an answer"):
        Http(Guard(True)).post_json(early.url, "{}")


def test_a_handshake_that_never_ends_is_cut_short() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"https://127.0.0.1:{silent.getsockname()[1]}/"
        started = time.monotonic()
        with pytest.raises(Failed, match="timed out"):
            Http(Guard(True), total_seconds=0.4).post_json(url, "{}")
        assert time.monotonic() - started < 2


def test_an_answer_is_taken_whatever_its_body_does() -> None:
    with receiving((200, {"Content-Length": "1000"})) as promising:
        assert Http(Guard(True), total_seconds=0.5).post_json(promising.url, "{}").delivered


def test_a_body_that_never_ends_is_cut_short(tls_receiver: tuple[Receiver, ssl.SSLContext, list[str]]) -> None:
    secure, trust, _ = tls_receiver
    secure.answers[:] = [DRIP_BODY]
    with receiving(DRIP_BODY) as plain:
        for url in (plain.url, f"https://hooks.test:{secure.port}/"):
            started = time.monotonic()
            http = Http(known_as("127.0.0.1"), trust, total_seconds=0.6)
            assert http.post_json(url, "{}").delivered, "the status came in time"
            assert time.monotonic() - started < 2


def test_a_closed_port_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(Failed, match="connection refused"):
        Http(Guard(True)).post_json(f"http://127.0.0.1:{port}/", "{}")


def test_what_is_no_http_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(b"220 mail.example ESMTP\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(Failed, match="no HTTP answer"):
            Http(Guard(True)).post_json(f"http://127.0.0.1:{server.getsockname()[1]}/", "{}")
        thread.join()


def test_retry_after_is_read_in_seconds_alone() -> None:
    dated = {"Retry-After": "Wed, 21 Oct 2026 07:28:00 GMT"}
    with receiving((429, {"Retry-After": "120"}), (503, dated)) as receiver:
        assert Http(Guard(True)).post_json(receiver.url, "{}").retry_after == 120
        assert Http(Guard(True)).post_json(receiver.url, "{}").retry_after is None


def test_a_name_without_an_address_is_unresolvable() -> None:
    def resolve(host: str, port: int) -> list[str]:
        raise OSError("no such host")

    with pytest.raises(Unresolvable):
        Http(Guard(False, resolve)).post_json("https://hooks.test/", "{}")
    with pytest.raises(Unresolvable):
        Http(Guard(False, lambda host, port: [])).post_json("https://hooks.test/", "{}")


def test_the_systems_resolver_gives_numbers() -> None:
    assert {str(ip_address(found)) for found in system_resolve("localhost", 80)} <= {"127.0.0.1", "::1"}
    with pytest.raises(OSError, match="no host name"):
        system_resolve("x" * 70 + ".test", 80)


def certificate(folder: Path, name: str) -> Path:
    """A file with a key and a certificate for ``name`` that vouches for itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=1))
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    path = folder / f"{name}.pem"
    path.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        + made.public_bytes(serialization.Encoding.PEM)
    )
    return path


@pytest.fixture
def tls_receiver(tmp_path: Path) -> Iterator[tuple[Receiver, ssl.SSLContext, list[str]]]:
    """A TLS receiver that is ``hooks.test``, what trusts it, and the names that it was asked for."""
    path = certificate(tmp_path, "hooks.test")
    server, names = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), []
    server.load_cert_chain(path)
    server.sni_callback = lambda connection, name, context: names.append(name)
    with receiving(204, tls=server) as running:
        yield running, ssl.create_default_context(cafile=str(path)), names


def test_tls_asks_for_the_name_at_the_pinned_address(
    tls_receiver: tuple[Receiver, ssl.SSLContext, list[str]],
) -> None:
    receiver, trust, names = tls_receiver
    outcome = Http(known_as("127.0.0.1"), trust).post_json(f"https://hooks.test:{receiver.port}/x", "{}")
    assert outcome.status == 204
    assert names == ["hooks.test"]
    assert receiver.received[0].headers["host"] == f"hooks.test:{receiver.port}"


def test_tls_trusts_no_other_name_and_no_other_maker(
    tls_receiver: tuple[Receiver, ssl.SSLContext, list[str]],
) -> None:
    receiver, trust, _ = tls_receiver
    with pytest.raises(Failed, match="certificate not trusted: Hostname mismatch"):
        Http(known_as("127.0.0.1"), trust).post_json(f"https://other.test:{receiver.port}/", "{}")
    with pytest.raises(Failed, match="certificate not trusted"):
        Http(known_as("127.0.0.1")).post_json(f"https://hooks.test:{receiver.port}/", "{}")
    assert receiver.received == []

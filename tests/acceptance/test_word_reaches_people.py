"""A service as it is started, a receiver that falters, a mail server: word of corrections reaches both."""

from __future__ import annotations

import json
import tempfile
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.mailbox import Mailbox, receiving_mail
from tests.operation.machine import Machine, wait_for
from tests.receiver import receiving, signed_by

pytestmark = pytest.mark.slow


@pytest.fixture
def mailbox() -> Iterator[tuple[Mailbox, str]]:
    with receiving_mail() as running:
        yield running


@pytest.fixture
def machine(mailbox: tuple[Mailbox, str]) -> Iterator[Machine]:
    env = {
        "CORRIGENDA_ALLOW_PRIVATE_TARGETS": "1",
        "CORRIGENDA_BOOTSTRAP_TOKEN": "boot",
        "CORRIGENDA_SMTP_URL": mailbox[1],
        "CORRIGENDA_BASE_URL": "https://corrigenda.test",
    }
    with tempfile.TemporaryDirectory(prefix="corrigenda-tests-") as folder, Machine(Path(folder) / "d", env=env) as up:
        up.wait_ready()
        yield up
        up.stop()


def ask(machine: Machine, method: str, path: str, body: Any = None) -> Any:
    request = urllib.request.Request(
        f"http://127.0.0.1:{machine.port}{path}",
        method=method,
        data=None if body is None else json.dumps(body).encode(),
        headers={"Authorization": "Bearer boot", "Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


def test_a_webhook_gets_each_and_a_mailbox_one_digest(machine: Machine, mailbox: tuple[Mailbox, str]) -> None:
    box, _ = mailbox
    ann = {"kind": "user", "id": "ann"}
    ask(machine, "PUT", "/v1/projects/p", {})
    ask(machine, "PUT", "/v1/agents/support", {"owners": [ann]})
    own = {"scope": {"kind": "principal", "principal": ann}, "events": ["correction.with-owner"]}
    with receiving(500, 200) as receiver:
        hook = {"kind": "webhook", "target": receiver.url, "digestSeconds": 0, **own}
        endpoint = ask(machine, "POST", "/v1/notification-endpoints", hook)
        mail = {"kind": "email", "target": "ann@example.com", "digestSeconds": 3, **own}
        ask(machine, "POST", "/v1/notification-endpoints", mail)
        for n in range(10):
            run = {"projectId": "p", "subject": {"kind": "agent", "id": "support", "version": "1"}}
            ask(machine, "PUT", f"/v1/runs/r{n}", {**run, "status": "completed", "input": {}, "output": {"text": "x"}})
            wrong = {"runId": f"r{n}", "decisions": "wrong", "mustNotCall": ["refund"]}
            ask(machine, "POST", "/v1/corrections", wrong)
        wait_for(lambda: len(receiver.received) >= 11)
        wait_for(lambda: bool(box.mails))
        path = f"/v1/notification-endpoints/{endpoint['id']}/deliveries"
        wait_for(lambda: {row["status"] for row in ask(machine, "GET", path)["data"]} == {"delivered"})
        workers = psutil.Process(machine.process.pid).children(recursive=True)
        assert machine.stop() == 0, machine.output
    assert not [child for child in workers if child.is_running()]
    assert all(signed_by(endpoint["secret"], received) for received in receiver.received)
    assert len({received.headers["webhook-id"] for received in receiver.received}) == 10
    ((to, message),) = box.mails
    assert (to, message["Subject"]) == (["ann@example.com"], "[Corrigenda] 10 notifications")

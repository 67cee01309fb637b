"""A mail server on this machine that keeps what it is handed."""

from __future__ import annotations

import email.policy
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from email.message import EmailMessage
from email.parser import BytesParser
from typing import Any

from aiosmtpd.controller import Controller


class Mailbox:
    """``mails`` are recipients and message. ``refuses``: what it answers the next recipients."""

    def __init__(self) -> None:
        self.mails: list[tuple[list[str], EmailMessage]] = []
        self.refuses: list[str] = []

    async def handle_RCPT(self, server: Any, session: Any, envelope: Any, address: str, options: Any) -> str:
        if self.refuses:
            return self.refuses.pop(0)
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:
        parsed = BytesParser(EmailMessage, policy=email.policy.default).parsebytes(envelope.content)
        self.mails.append((envelope.rcpt_tos, parsed))  # type: ignore[arg-type]
        return "250 OK"


@contextmanager
def receiving_mail() -> Iterator[tuple[Mailbox, str]]:
    """A mailbox and the ``smtp://`` URL of its server, on a free port of loopback."""
    box = Mailbox()
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    controller = Controller(box, hostname="127.0.0.1", port=port)
    controller.start()
    try:
        yield box, f"smtp://127.0.0.1:{port}"
    finally:
        controller.stop()

"""Mail over the operator's own SMTP server."""

from __future__ import annotations

import contextlib
import json
import smtplib
import socket
import ssl
import threading
from dataclasses import dataclass
from datetime import datetime
from email.message import EmailMessage
from email.utils import format_datetime
from typing import Any, Self
from urllib.parse import unquote, urlsplit

from app.domain import wording
from app.domain.delivering import Outcome, Parcel

SECONDS = 15
"""The longest silence of a mail server."""

TOTAL_SECONDS = 40
"""The longest that a mail may take: less than the lease on it."""

_PORTS = {"smtp": 25, "smtps": 465, "smtp+starttls": 587}


@dataclass(frozen=True, slots=True)
class MailServer:
    """Where mail is handed in, from ``smtp://``, ``smtps://`` or ``smtp+starttls://[user:password@]host[:port]``."""

    scheme: str
    host: str
    port: int
    user: str | None = None
    password: str | None = None

    @classmethod
    def of(cls, url: str) -> MailServer:
        """From a URL that the settings let through."""
        parts = urlsplit(url)
        user = unquote(parts.username) if parts.username else None
        password = unquote(parts.password) if parts.password else None
        return cls(parts.scheme, parts.hostname or "", parts.port or _PORTS[parts.scheme], user, password)


def compose(parcel: Parcel, sender: str, base_url: str, now: datetime) -> EmailMessage:
    """``parcel`` as a mail, plain and HTML. Its Message-ID is the same at every retry."""
    words = wording.mail(json.loads(parcel.body), base_url)
    mail = EmailMessage()
    mail["From"], mail["To"], mail["Subject"] = sender, parcel.target, words.subject
    mail["Date"] = format_datetime(now)
    mail["Message-ID"] = f"<{parcel.delivery_id}@{sender.rpartition('@')[2].rstrip('>')}>"
    mail["Auto-Submitted"] = "auto-generated"
    mail.set_content(words.plain)
    mail.add_alternative(words.html, subtype="html")
    return mail


def send(
    parcel: Parcel,
    server: MailServer | None,
    sender: str,
    base_url: str,
    now: datetime,
    total_seconds: float = TOTAL_SECONDS,
) -> Outcome:
    """Hand ``parcel`` to the mail server."""
    if server is None:
        return Outcome(error="no mail server is set: CORRIGENDA_SMTP_URL")
    mail = compose(parcel, sender, base_url, now)
    with _Watchdog(total_seconds) as watchdog:
        try:
            _hand_in(mail, server, watchdog)
        except OSError as error:  # those of smtplib, too
            return Outcome(error="the mail server took too long" if watchdog.bit else _why(error))
    return Outcome(accepted=True)


def _hand_in(mail: EmailMessage, server: MailServer, watchdog: _Watchdog) -> None:
    with contextlib.closing(_Session(server, watchdog)) as session:
        if server.scheme == "smtp+starttls":
            session.starttls(context=ssl.create_default_context())
        if server.user is not None:
            session.login(server.user, server.password or "")
        session.send_message(mail)
        with contextlib.suppress(OSError):  # it has the mail, however it takes our leave
            session.quit()


class _Watchdog:
    """Ends a connection when its time is over: a socket's own time-out starts anew with each byte."""

    def __init__(self, seconds: float) -> None:
        self.bit = False
        self._line: socket.socket | None = None
        self._timer = threading.Timer(seconds, self._bite)
        self._timer.daemon = True

    def __enter__(self) -> Self:
        self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
        if self._line is not None:
            self._line.close()

    def watch(self, line: socket.socket) -> None:
        """A duplicate is kept, which still reaches the connection when TLS takes ``line`` over."""
        self._line = line.dup()
        if self.bit:
            self._bite()

    def _bite(self) -> None:
        self.bit = True
        if self._line is not None:
            with contextlib.suppress(OSError):
                self._line.shutdown(socket.SHUT_RDWR)


class _Session(smtplib.SMTP):
    """A session whose connection is watched from its first byte on, which is the server's."""

    def __init__(self, server: MailServer, watchdog: _Watchdog) -> None:
        self._tls = server.scheme == "smtps"
        self._watchdog = watchdog
        super().__init__(server.host, server.port, timeout=SECONDS)

    def connect(self, host: str = "", port: int = 0, source_address: Any = None) -> tuple[int, bytes]:
        line = socket.create_connection((host, port), SECONDS)
        try:
            self._watchdog.watch(line)
            self.sock = ssl.create_default_context().wrap_socket(line, server_hostname=host) if self._tls else line
            return self.getreply()
        except BaseException:
            line.close()
            self.close()
            raise


def _why(error: OSError) -> str:
    if isinstance(error, smtplib.SMTPRecipientsRefused):
        return f"the mail server refused the address: {next(iter(error.recipients.values()))[0]}"
    if isinstance(error, smtplib.SMTPResponseException) and error.smtp_code > 0:
        return f"the mail server answered {error.smtp_code}"
    if isinstance(error, smtplib.SMTPException):
        return f"the mail server failed: {type(error).__name__}"
    return f"the mail server can't be reached: {error.strerror or 'timed out'}"

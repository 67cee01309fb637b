"""Mail over the operator's own SMTP server."""

from __future__ import annotations

import json
import smtplib
import ssl
from dataclasses import dataclass
from datetime import datetime
from email.message import EmailMessage
from email.utils import format_datetime
from urllib.parse import unquote, urlsplit

from app.domain import wording
from app.domain.delivering import Outcome, Parcel

SECONDS = 15
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


def send(parcel: Parcel, server: MailServer | None, sender: str, base_url: str, now: datetime) -> Outcome:
    """Hand ``parcel`` to the mail server."""
    if server is None:
        return Outcome(error="no mail server is set: CORRIGENDA_SMTP_URL")
    try:
        with _session(server) as session:
            if server.scheme == "smtp+starttls":
                session.starttls(context=ssl.create_default_context())
            if server.user is not None:
                session.login(server.user, server.password or "")
            session.send_message(compose(parcel, sender, base_url, now))
    except smtplib.SMTPRecipientsRefused as error:
        code = next(iter(error.recipients.values()))[0]
        return Outcome(error=f"the mail server refused the address: {code}")
    except smtplib.SMTPResponseException as error:
        return Outcome(error=f"the mail server answered {error.smtp_code}")
    except smtplib.SMTPException as error:
        return Outcome(error=f"the mail server failed: {type(error).__name__}")
    except OSError as error:
        return Outcome(error=f"the mail server can't be reached: {error.strerror or 'timed out'}")
    return Outcome(accepted=True)


def _session(server: MailServer) -> smtplib.SMTP:
    if server.scheme == "smtps":
        return smtplib.SMTP_SSL(server.host, server.port, timeout=SECONDS, context=ssl.create_default_context())
    return smtplib.SMTP(server.host, server.port, timeout=SECONDS)

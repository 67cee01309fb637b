"""Sends a message by the channel of its endpoint. The one place where messages leave the service."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from app.channels import email, slack, webhook
from app.channels.email import MailServer
from app.channels.guard import Guard, Unresolvable
from app.channels.http import Http
from app.channels.pinned import Failed
from app.config import Settings
from app.domain.delivering import Outcome, Parcel
from app.domain.targets import TargetRefused


@dataclass(frozen=True, slots=True)
class Post:
    """All channels, with what the operator set of them."""

    http: Http
    mail_server: MailServer | None = None
    mail_from: str = ""
    base_url: str = ""

    @classmethod
    def of(cls, settings: Settings) -> Post:
        server = MailServer.of(settings.smtp_url) if settings.smtp_url else None
        return cls(Http(Guard(settings.allow_private_targets)), server, settings.mail_from, settings.base_url)

    def send(self, parcel: Parcel) -> Outcome:
        """Try once to deliver ``parcel``. Whatever goes wrong is in the outcome; open no transaction around it."""
        try:
            return self._by_channel(parcel, datetime.now(UTC))
        except TargetRefused as refused:
            return Outcome(error=f"target refused: {refused}")
        except (Unresolvable, Failed) as failed:
            return Outcome(error=str(failed))

    def _by_channel(self, parcel: Parcel, now: datetime) -> Outcome:
        if parcel.kind == "email":
            return email.send(parcel, self.mail_server, self.mail_from, self.base_url, now)
        if parcel.kind == "slack":
            return slack.send(parcel, self.base_url, self.http)
        return webhook.send(parcel, now, self.http)

"""Webhooks by the Standard Webhooks specification: the same id at every retry, a new time, signed by each secret."""

from __future__ import annotations

from datetime import datetime

from standardwebhooks import Webhook

from app.channels.http import Http
from app.domain.delivering import Outcome, Parcel


def signed_headers(message_id: str, now: datetime, body: str, secrets: tuple[str, ...]) -> dict[str, str]:
    """The three headers by which a receiver knows the message. ``secrets`` are ``whsec_…``, ``now`` is in UTC."""
    signatures = " ".join(Webhook(secret).sign(message_id, now, body) for secret in secrets)
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(int(now.timestamp())),
        "webhook-signature": signatures,
    }


def send(parcel: Parcel, now: datetime, http: Http) -> Outcome:
    """Deliver ``parcel`` to its URL."""
    if not parcel.secrets:
        return Outcome(error="the secret can't be read (CORRIGENDA_SECRET_KEY is another than before): rotate it")
    return http.post_json(
        parcel.target, parcel.body, signed_headers(parcel.delivery_id, now, parcel.body, parcel.secrets)
    )

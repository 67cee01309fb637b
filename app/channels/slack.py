"""Slack's incoming webhooks, and what speaks like them."""

from __future__ import annotations

import json

from app.channels.http import Http
from app.domain import wording
from app.domain.delivering import Outcome, Parcel


def send(parcel: Parcel, base_url: str, http: Http) -> Outcome:
    """Post ``parcel`` as one Slack message."""
    if not parcel.target:
        return Outcome(error="the hook can't be read (CORRIGENDA_SECRET_KEY is another than before): set it again")
    text = wording.slack(json.loads(parcel.body), base_url)
    payload = json.dumps({"text": text, "unfurl_links": False}, ensure_ascii=False)
    return http.post_json(parcel.target, payload)

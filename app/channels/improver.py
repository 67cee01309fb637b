"""Hands briefs of what waits for Improve to whoever improves: an endpoint of the operator's, or a Python function."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from app.channels.guard import Unresolvable
from app.channels.http import Http
from app.channels.pinned import Failed
from app.channels.webhook import signed_headers
from app.domain import json_text, links, messages
from app.domain.targets import TargetRefused

BRIEF = "improve.brief"
"""The ``type`` of a brief's message."""

Improver = Callable[[str, str], str | None]
"""Takes a brief's id and JSON; gives the id of the Improve run that works on it, if it names one.

:raises NotTaken: if it doesn't take the brief; whatever else it raises means the same.
"""


class NotTaken(Exception):
    """The brief wasn't taken. The message says why and repeats nothing of it."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An improver behind a URL: gets briefs signed by Standard Webhooks, ``webhook-id`` being the brief's id."""

    url: str
    secret: str
    http: Http

    def __call__(self, brief_id: str, brief: str) -> str | None:
        now = datetime.now(UTC)
        body = messages.enveloped(BRIEF, now, brief)
        try:
            reply = self.http.ask_json(self.url, body, signed_headers(brief_id, now, body, (self.secret,)))
        except (TargetRefused, Unresolvable, Failed) as failed:
            raise NotTaken(f"the Improve endpoint can't be reached: {failed}") from None
        if not 200 <= reply.status < 300:
            raise NotTaken(f"the Improve endpoint answered {reply.status}")
        return links.improve_run_of(_json_of(reply.body))


def _json_of(body: bytes) -> Any:
    try:
        return json_text.parse(body.decode())
    except (UnicodeDecodeError, json_text.NotJson):
        return {}


@dataclass(frozen=True, slots=True)
class Function:
    """An improver in this process: is called with the brief as a dict."""

    call: Callable[[dict[str, Any]], Any]

    def __call__(self, brief_id: str, brief: str) -> str | None:
        return links.improve_run_of(self.call(json.loads(brief)))

"""JSON posted to a target that somebody registered: looked up, checked, connected to where the check said."""

from __future__ import annotations

import ssl
from dataclasses import dataclass

from app.channels import pinned
from app.channels.guard import Guard
from app.channels.pinned import Reply
from app.domain.delivering import Outcome
from app.domain.targets import http_target

HEADERS = {"Content-Type": "application/json", "User-Agent": "Corrigenda", "Connection": "close"}


@dataclass(frozen=True, slots=True)
class Http:
    """``trust``: the certificates to trust, the machine's own by default. ``total_seconds``: for one attempt."""

    guard: Guard
    trust: ssl.SSLContext | None = None
    total_seconds: float = pinned.TOTAL_SECONDS

    def post_json(self, url: str, body: str, headers: dict[str, str] | None = None) -> Outcome:
        """How the receiver took ``body``.

        :raises TargetRefused: if ``url`` leads to where no message may go.
        :raises Unresolvable: and ``Failed``, when there is no answer.
        """
        reply = self.ask_json(url, body, headers)
        moved = "redirects are not followed" if 300 <= reply.status < 400 else None
        return Outcome(reply.status, moved, reply.retry_after)

    def ask_json(self, url: str, body: str, headers: dict[str, str] | None = None) -> Reply:
        """The receiver's answer to ``body``, with what it says.

        :raises TargetRefused: and ``Unresolvable`` and ``Failed``, as ``post_json``.
        """
        target = http_target(url)
        addresses = self.guard.addresses(target)
        sent = HEADERS | (headers or {})
        return pinned.post(target, addresses, sent, body.encode(), self.trust, self.total_seconds)

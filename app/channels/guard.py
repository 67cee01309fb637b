"""Looks a target's host up and lets through only addresses that are open to messages."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass

from app.domain.targets import HttpTarget, TargetRefused, http_target, why_not_address, why_not_host, why_not_port

RESOLVE_SECONDS = 5

Resolve = Callable[[str, int], list[str]]
"""From a host and a port to its IP addresses. Raises ``OSError`` when it has none."""


class Unresolvable(Exception):
    """The host has no address just now."""


def system_resolve(host: str, port: int) -> list[str]:
    """The addresses that this machine knows ``host`` by, best first. Waits ``RESOLVE_SECONDS`` at most."""
    found: list[str] = []
    failure: list[OSError] = []

    def look_up() -> None:
        try:
            answers = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            found.extend(dict.fromkeys(str(answer[4][0]) for answer in answers))
        except OSError as error:
            failure.append(error)
        except UnicodeError:
            failure.append(OSError("no host name"))

    # The system's resolver takes no time-out, so it runs beside us and may finish unheard.
    thread = threading.Thread(target=look_up, daemon=True)
    thread.start()
    thread.join(RESOLVE_SECONDS)
    if failure:
        raise failure[0]
    if not found:
        raise OSError("no answer in time")
    return found


@dataclass(frozen=True, slots=True)
class Guard:
    """The operator's rule on targets. ``resolve`` is asked once for each connection; what it said is connected to."""

    allow_private: bool = False
    resolve: Resolve = system_resolve

    def check(self, url: str) -> HttpTarget:
        """``url`` taken apart, when it may be registered. A host that can't be looked up now may be one later.

        :raises TargetRefused: if it is malformed or leads to where no message may go.
        """
        target = http_target(url)
        try:
            self.addresses(target)
        except Unresolvable:
            return target
        return target

    def addresses(self, target: HttpTarget) -> list[str]:
        """The addresses to connect to, each checked.

        :raises TargetRefused: if any of them isn't open to messages: a mixed answer is an attempt to slip through.
        :raises Unresolvable: if there is none.
        """
        if not self.allow_private:
            _refuse(why_not_port(target.port) or why_not_host(target.host))
        literal = target.literal
        found = [str(literal)] if literal is not None else self._look_up(target)
        if not self.allow_private:
            for address in found:
                _refuse(why_not_address(address))
        return found

    def _look_up(self, target: HttpTarget) -> list[str]:
        try:
            found = self.resolve(target.host, target.port)
        except OSError:
            raise Unresolvable("the host's name can't be resolved") from None
        if not found:
            raise Unresolvable("the host's name has no address")
        return found


def _refuse(reason: str | None) -> None:
    if reason is not None:
        raise TargetRefused(reason)

"""Where messages may be sent: what a target must look like, and which addresses on the network are open to it.

Endpoints are registered by people who aren't the operator, so a target must not reach what only this machine can.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from urllib.parse import SplitResult, urlsplit

_VISIBLE = re.compile(r"[\x21-\x7e]{1,2048}")
_NAME = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)(\.(?!-)[a-z0-9_-]{1,63}(?<!-))*")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
_ATOM = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
_LOCAL = re.compile(rf"{_ATOM}(\.{_ATOM})*")

_GLOBAL_V6 = IPv6Network("2000::/3")
_NAT64 = IPv6Network("64:ff9b::/96")


class TargetRefused(ValueError):
    """A message can't go there. The message says why and repeats no secret."""


@dataclass(frozen=True, slots=True)
class HttpTarget:
    """A URL taken apart. ``host`` is a lower-case name or an IP address without brackets."""

    tls: bool
    host: str
    port: int
    path: str

    @property
    def literal(self) -> IPv4Address | IPv6Address | None:
        """The address, when the URL names one and not a host."""
        try:
            return ip_address(self.host)
        except ValueError:
            return None


def http_target(url: str) -> HttpTarget:
    """``url`` as it is connected to.

    :raises TargetRefused: unless it is a plain ``http`` or ``https`` URL whose host means one thing to everybody.
    """
    if not _VISIBLE.fullmatch(url) or "\\" in url:
        raise TargetRefused("must be a URL of at most 2048 visible ASCII characters, others percent-encoded")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise TargetRefused("is not a URL") from None
    if parts.scheme not in ("http", "https"):
        raise TargetRefused("must start with https:// or http://")
    if "@" in parts.netloc:
        raise TargetRefused("must not hold a user name or password")
    if parts.fragment or url.endswith("#"):
        raise TargetRefused("must not hold a fragment")
    if port == 0 or parts.netloc.endswith(":"):
        raise TargetRefused("must name a port from 1 to 65535, or none")
    tls = parts.scheme == "https"
    return HttpTarget(tls, _host(parts), port or (443 if tls else 80), _path(parts))


def _path(parts: SplitResult) -> str:
    return (parts.path or "/") + (f"?{parts.query}" if parts.query else "")


def _host(parts: SplitResult) -> str:
    host = (parts.hostname or "").removesuffix(".")
    if parts.netloc.startswith("["):
        return _v6(host)
    last = host.rpartition(".")[2]
    if _NUMBER.fullmatch(last):
        return _v4(host)
    if len(host) > 253 or not _NAME.fullmatch(host):
        raise TargetRefused("must name a host, in punycode if it has other letters")
    return host


def _v4(host: str) -> str:
    """Four decimal numbers. Shorter, octal and hexadecimal spellings are read differently by different programs."""
    try:
        return str(IPv4Address(host))
    except ValueError:
        raise TargetRefused("must spell an IPv4 address as four decimal numbers") from None


def _v6(host: str) -> str:
    try:
        address = IPv6Address(host)
    except ValueError:
        raise TargetRefused("must spell an IPv6 address in brackets") from None
    if address.scope_id is not None:
        raise TargetRefused("must not name a network interface")
    return str(address)


def why_not_port(port: int) -> str | None:
    """Why a message may not go to ``port`` in a public network, if so: below 1024 only the web's own are open."""
    return None if port in (80, 443) or port >= 1024 else f"port {port} is not open to messages"


def why_not_host(host: str) -> str | None:
    """Why a message may not go to the name ``host``, if so, whatever it resolves to."""
    local = host == "localhost" or host.endswith(".localhost")
    return "this machine is not open to messages" if local else None


def why_not_address(address: str) -> str | None:
    """Why a message may not go to the IP ``address``, if so: only the public internet is open."""
    ip = ip_address(address.partition("%")[0])
    if isinstance(ip, IPv4Address):
        return None if _public_v4(ip) else f"{ip} is not a public address"
    inner = _inside(ip)
    if inner is not None:
        return None if _public_v4(inner) else f"{ip} leads to {inner}, which is not a public address"
    return None if ip in _GLOBAL_V6 and ip.is_global else f"{ip} is not a public address"


def _public_v4(ip: IPv4Address) -> bool:
    return ip.is_global and not ip.is_multicast and not ip.is_reserved


def _inside(ip: IPv6Address) -> IPv4Address | None:
    """The IPv4 address that a gateway would take ``ip`` to. IPv4-mapped ones are spellings and stay refused."""
    if ip in _NAT64:
        return IPv4Address(int(ip) & 0xFFFFFFFF)
    return ip.sixtofour or (ip.teredo[1] if ip.teredo else None)


def email_target(text: str) -> str:
    """``text`` as a mail address, its domain in lower case.

    :raises TargetRefused: unless it is one plain ASCII address.
    """
    local, _, domain = text.rpartition("@")
    if len(text) > 254 or len(local) > 64 or not _LOCAL.fullmatch(local) or not _NAME.fullmatch(domain.lower()):
        raise TargetRefused("must be one mail address, such as ann@example.com")
    return f"{local}@{domain.lower()}"


def shown_hook(url: str) -> str:
    """A Slack hook's URL as it is shown: who has all of it can post there, so its last part is cut short."""
    parts = urlsplit(url)
    path, _, secret = parts.path.rstrip("/").rpartition("/")
    return f"{parts.scheme}://{parts.netloc}{path}/…{secret[-4:] if len(secret) > 8 else ''}"

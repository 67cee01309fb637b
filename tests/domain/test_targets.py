from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.domain.targets import (
    HttpTarget,
    TargetRefused,
    email_target,
    http_target,
    shown_hook,
    why_not_address,
    why_not_host,
    why_not_port,
)


@pytest.mark.parametrize(
    ("url", "target"),
    [
        ("https://example.com", HttpTarget(True, "example.com", 443, "/")),
        ("http://EXAMPLE.com:8080/a/b?c=d&e", HttpTarget(False, "example.com", 8080, "/a/b?c=d&e")),
        ("https://example.com./x", HttpTarget(True, "example.com", 443, "/x")),
        ("https://93.184.215.14/x", HttpTarget(True, "93.184.215.14", 443, "/x")),
        ("https://[2606:4700::1111]:8443/", HttpTarget(True, "2606:4700::1111", 8443, "/")),
        ("https://xn--bcher-kva.example?q", HttpTarget(True, "xn--bcher-kva.example", 443, "/?q")),
    ],
)
def test_a_url_is_taken_apart(url: str, target: HttpTarget) -> None:
    assert http_target(url) == target


@pytest.mark.parametrize(
    "url",
    [
        "",
        "example.com/hook",
        "//example.com/hook",
        "ftp://example.com",
        "file:///etc/passwd",
        "javascript:alert(1)",
        "https://",
        "https:///hook",
        "https://user@example.com",
        "https://user:pass@example.com",
        "https://example.com@127.0.0.1/",
        "https://example.com\\@127.0.0.1/",
        "https://example.com/#fragment",
        "https://example.com#",
        "https://example.com:0/",
        "https://example.com:65536/",
        "https://example.com:x/",
        "https://example.com:/",
        "https://exa mple.com/",
        "https://example.com/\r\nX-Evil: 1",
        "https://example.com/\x00",
        "https://bücher.example/",
        "https://１２７.０.０.１/",
        "https://%31%32%37.0.0.1/",
        "https://-a.example/",
        "https://a..example/",
        "https://2130706433/",
        "https://017700000001/",
        "https://0x7f000001/",
        "https://0x7f.0.0.1/",
        "https://0177.0.0.1/",
        "https://127.1/",
        "https://127.0.1/",
        "https://127.0.0.1.0/",
        "https://256.1.1.1/",
        "https://1.1.1.01/",
        "https://[fe80::1%25eth0]/",
        "https://[::1",
        "https://::1/",
        "https://[v1.x]/",
        "https://example.com/" + "x" * 2048,
    ],
)
def test_what_programs_could_read_differently_is_refused(url: str) -> None:
    with pytest.raises(TargetRefused):
        http_target(url)


CLOSED_V4 = [
    *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.2.0/24"),
    *("192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4"),
]
CLOSED_V6 = [
    *("::/128", "::1/128", "::/96", "::ffff:0:0/96", "fc00::/7", "fe80::/10", "fec0::/10", "ff00::/8"),
    *("2001:db8::/32", "100::/64"),
]


@pytest.mark.parametrize("network", CLOSED_V4)
@settings(max_examples=25)
@given(data=st.data())
def test_no_address_that_is_not_public_is_open(network: str, data: st.DataObject) -> None:
    inside = IPv4Network(network)
    v4 = IPv4Address(data.draw(st.integers(int(inside[0]), int(inside[-1]))))
    mapped, nat64 = IPv6Address(f"::ffff:{v4}"), IPv6Address(f"64:ff9b::{v4}")
    six_to_four = IPv6Address((0x2002 << 112) | (int(v4) << 80) | 1)
    teredo = IPv6Address((0x20010000 << 96) | (0xFFFFFFFF ^ int(v4)))
    for address in (v4, mapped, nat64, six_to_four, teredo):
        assert why_not_address(str(address)) is not None, address


@pytest.mark.parametrize("network", CLOSED_V6)
@settings(max_examples=25)
@given(data=st.data())
def test_no_v6_address_that_is_not_public_is_open(network: str, data: st.DataObject) -> None:
    inside = IPv6Network(network)
    address = IPv6Address(data.draw(st.integers(int(inside[0]), int(inside[-1]))))
    assert why_not_address(str(address)) is not None


@pytest.mark.parametrize("address", ["1.1.1.1", "93.184.215.14", "2606:4700::1111", "64:ff9b::1.1.1.1"])
def test_public_addresses_are_open(address: str) -> None:
    assert why_not_address(address) is None


def test_mapped_public_addresses_are_refused_as_spellings() -> None:
    assert why_not_address("::ffff:1.1.1.1") is not None


def test_names_of_this_machine_and_its_services_are_closed() -> None:
    assert why_not_host("localhost")
    assert why_not_host("x.localhost")
    assert why_not_host("localhost.example") is None
    assert [port for port in (22, 25, 80, 443, 1023, 1024, 65535) if why_not_port(port)] == [22, 25, 1023]


@pytest.mark.parametrize("address", ["ann@example.com", "a.b+c_d@sub.example.org", "root@mail"])
def test_a_mail_address_is_taken(address: str) -> None:
    assert email_target(address) == address


def test_the_domain_of_a_mail_address_is_lower_case() -> None:
    assert email_target("Ann@Example.COM") == "Ann@example.com"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ann",
        "@example.com",
        "ann@",
        "ann@@example.com",
        "Ann <ann@example.com>",
        "a@b.example, c@d.example",
        "ann@example.com\n",
        "ann@example.com\r\nBcc: x@y.example",
        "a nn@example.com",
        '"a b"@example.com',
        "ann@[127.0.0.1]",
        "ann@exa mple.com",
        ".ann@example.com",
        "änn@example.com",
        "x" * 65 + "@example.com",
        "ann@" + "x." * 130 + "com",
    ],
)
def test_anything_else_is_no_mail_address(text: str) -> None:
    with pytest.raises(TargetRefused):
        email_target(text)


def test_a_slack_hook_is_shown_without_its_secret() -> None:
    shown = shown_hook("https://hooks.slack.com/services/T01/B02/AbCdEfGhIjKlMnOp?x=secret")
    assert shown == "https://hooks.slack.com/services/T01/B02/…MnOp"
    assert shown_hook("https://chat.example/hooks/short/") == "https://chat.example/hooks/…"

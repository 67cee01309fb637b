from __future__ import annotations

from itertools import pairwise

import pytest

from app.domain.versions import earlier, how_of_pin

PRECEDENCE = [
    "1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-alpha.beta", "1.0.0-beta", "1.0.0-beta.2", "1.0.0-beta.11", "1.0.0-rc.1",
    "1.0.0", "1.2.0", "1.9.0", "1.10.0", "2.0.0",
]  # fmt: skip
"""From the specification of semantic versions, and ``9`` before ``10``."""


@pytest.mark.parametrize(("before", "after"), list(pairwise(PRECEDENCE)))
def test_semantic_versions_go_by_precedence_whenever_they_were_seen(before: str, after: str) -> None:
    seen = {before: 2, after: 1}
    assert earlier(before, after, seen)
    assert not earlier(after, before, seen)


@pytest.mark.parametrize(("one", "other"), [("9", "10"), ("v1.0.0", "v2.0.0"), ("2026-01", "1.0.0"), ("1.0", "1.0.1")])
def test_others_go_by_the_order_in_which_they_were_first_seen(one: str, other: str) -> None:
    assert earlier(one, other, {one: 1, other: 2})
    assert not earlier(one, other, {one: 2, other: 1})


def test_neither_of_two_builds_is_earlier() -> None:
    assert not earlier("1.0.0+a", "1.0.0+b", {"1.0.0+a": 1, "1.0.0+b": 2})
    assert not earlier("1.0.0+b", "1.0.0+a", {"1.0.0+a": 1, "1.0.0+b": 2})


def test_a_line_break_makes_no_semantic_version() -> None:
    assert earlier("2.0.0\n", "1.0.0", {"2.0.0\n": 1, "1.0.0": 2})


@pytest.mark.parametrize(
    ("version", "ran_before", "how"),
    [
        ("1.0.0", None, "pin"),
        ("1.0.0", "1.0.0", "pin"),
        ("1.0.0", "0.9.0", "pin"),
        ("1.0.0", "1.0.1", "went-back"),
        ("1.0.0-rc.1", "1.0.0", "went-back"),
    ],
)
def test_a_pin_goes_back_when_it_is_of_an_earlier_version(version: str, ran_before: str | None, how: str) -> None:
    assert how_of_pin(version, ran_before, {}) == how

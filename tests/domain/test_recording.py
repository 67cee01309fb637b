from __future__ import annotations

from typing import Any

import pytest

from app.domain.errors import BadInput, ItemNotFound
from app.domain.recording import Item, Said, check_pointers, said

CALL = {"tool": "refund"}


@pytest.mark.parametrize(
    ("body", "paths"),
    [
        ({}, [""]),
        ({"items": []}, [""]),
        ({"why": "so"}, [""]),
        ({"should_call": [], "must_not_call": [], "should_say": " "}, [""]),
        ({"decisions": "wrong"}, ["/decisions"]),
        ({"decisions": "wrong", "should_call": [], "must_not_call": []}, ["/decisions"]),
        ({"decisions": "wrong", "why": "so"}, ["/decisions"]),
        ({"decisions": "right", "should_call": [CALL]}, ["/shouldCall"]),
        ({"answer": "right", "must_not_call": ["x"]}, ["/mustNotCall"]),
        ({"decisions": "wrong", "should_call": [CALL], "must_not_call": ["x", "refund"]}, ["/mustNotCall/1"]),
        ({"answer": "wrong"}, ["/answer"]),
        ({"answer": "wrong", "why": " \n\t", "should_say": ""}, ["/answer"]),
        ({"answer": "right", "should_say": "x"}, ["/shouldSay"]),
        ({"decisions": "right", "should_say": "x"}, ["/shouldSay"]),
        ({"items": [{"key": "a", "verdict": "right"}, {"key": "a", "verdict": "wrong"}]}, ["/items/1/key"]),
        ({"decisions": "wrong", "answer": "wrong"}, ["/decisions", "/answer"]),
        ({"should_call": [CALL], "should_say": "x"}, ["/shouldCall", "/shouldSay", ""]),
    ],
)  # fmt: skip
def test_what_contradicts_itself_is_named(body: dict[str, Any], paths: list[str]) -> None:
    with pytest.raises(BadInput) as refusal:
        said(body)
    assert [issue["path"] for issue in refusal.value.details["issues"]] == paths


@pytest.mark.parametrize(
    "body",
    [
        {"decisions": "right", "should_call": [], "must_not_call": []},
        {"decisions": "right", "should_say": ""},
        {"decisions": "wrong", "must_not_call": ["x"]},
        {"decisions": "wrong", "should_call": [CALL, CALL], "answer": "right"},
        {"answer": "wrong", "why": "so"},
        {"answer": "wrong", "should_say": "x"},
        {"items": [{"key": "a", "verdict": "wrong"}]},
    ],
)
def test_these_say_something(body: dict[str, Any]) -> None:
    said(body)


def test_what_says_nothing_is_absent() -> None:
    assert said({"answer": "right", "should_call": [], "items": [], "why": "  ", "should_say": "\u2003"}) == Said(
        answer="right"
    )


def test_a_text_is_kept_with_the_space_around_it() -> None:
    assert said({"answer": "right", "why": " so\n"}).why == " so\n"


def test_all_lost_pointers_are_named() -> None:
    items = [Item("a", "right", "/0"), Item("b", "wrong"), Item("c", "right", "/2"), Item("d", "right", "/x")]
    check_pointers(items[:2], [None])
    with pytest.raises(ItemNotFound) as refusal:
        check_pointers(items, [None])
    assert refusal.value.details == {"items": [{"index": 2, "pointer": "/2"}, {"index": 3, "pointer": "/x"}]}

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.grading import ToolCall, grade, grade_decisions
from app.domain.json_text import parse


def calls(text: str) -> list[ToolCall]:
    return [ToolCall(tool, args) for tool, args in parse(text)]


@pytest.mark.parametrize(
    ("should", "observed", "verdict"),
    [
        ("[]", "[]", "right"),
        ('[["a", {}]]', "[]", "wrong"),
        ('[["a", {}]]', '[["b", {}]]', "wrong"),
        ('[["a", {}]]', '[["a", {"x": 1}]]', "right"),
        ('[["a", {"x": 1}]]', '[["a", {}]]', "wrong"),
        ('[["a", {"x": 1}]]', '[["a", {"x": 1.0, "y": 2}]]', "right"),
        ('[["a", {"x": 1.10}]]', '[["a", {"x": 1.1}]]', "right"),
        ('[["a", {"x": 1e2}]]', '[["a", {"x": 100}]]', "right"),
        ('[["a", {"x": 18446744073709551617}]]', '[["a", {"x": 18446744073709551616}]]', "wrong"),
        ('[["a", {"x": 0.1}]]', '[["a", {"x": 0.10000000000000001}]]', "wrong"),
        ('[["a", {"x": 1}]]', '[["a", {"x": true}]]', "wrong"),
        ('[["a", {"x": 0}]]', '[["a", {"x": false}]]', "wrong"),
        ('[["a", {"x": 1}]]', '[["a", {"x": "1"}]]', "wrong"),
        ('[["a", {"x": null}]]', '[["a", {}]]', "wrong"),
        ('[["a", {"x": null}]]', '[["a", {"x": null}]]', "right"),
        ('[["a", {"loc": {"lat": 1}}]]', '[["a", {"loc": {"lat": 1, "lng": 2}}]]', "wrong"),
        ('[["a", {"loc": {"lat": 1, "lng": 2}}]]', '[["a", {"loc": {"lng": 2.0, "lat": 1}}]]', "right"),
        ('[["a", {"l": [1, 2]}]]', '[["a", {"l": [2, 1]}]]', "wrong"),
        ('[["a", {"": 1, "__proto__": 2, "a.b": 3, "$ne": 4}]]', '[["a", {"$ne": 4, "": 1, "__proto__": 2, "a.b": 3}]]',
         "right"),
        ('[["a", {}], ["a", {}]]', '[["a", {}]]', "wrong"),
        ('[["a", {}], ["b", {}]]', '[["b", {}], ["a", {}]]', "right"),
        ('[["a", {}], ["a", {"x": 1}]]', '[["a", {"x": 1}], ["a", {"x": 2}]]', "right"),
    ],
)  # fmt: skip
def test_every_entry_needs_a_call_of_its_own(should: str, observed: str, verdict: str) -> None:
    assert grade_decisions(calls(should), [], calls(observed)) == verdict


def test_no_forbidden_tool_may_be_called() -> None:
    assert grade_decisions([], ["b"], calls('[["a", {}], ["b", {}]]')) == "wrong"
    assert grade_decisions([], ["B"], calls('[["a", {}], ["b", {}]]')) == "right"


@pytest.mark.parametrize(
    ("decisions", "answer", "whole"),
    [
        ("right", None, "right"), ("right", "right", "right"), ("right", "wrong", "wrong"),
        ("wrong", None, "wrong"), ("wrong", "right", "wrong"),
    ],
)  # fmt: skip
def test_right_means_that_every_part_is(decisions: Any, answer: Any, whole: str) -> None:
    assert grade(decisions, answer) == whole


small_calls = st.lists(
    st.builds(ToolCall, st.sampled_from("ab"), st.dictionaries(st.sampled_from("xy"), st.integers(0, 1))), max_size=5
)


@given(small_calls, small_calls)
def test_a_pairing_is_found_whenever_there_is_one(should: list[ToolCall], observed: list[ToolCall]) -> None:
    def serves(call: ToolCall, entry: ToolCall) -> bool:
        return call.tool == entry.tool and all(call.args.get(name) == value for name, value in entry.args.items())

    pairing = any(
        all(map(serves, chosen, should)) for chosen in permutations(observed, len(should))
    )  # fmt: skip
    assert grade_decisions(should, [], observed) == ("right" if pairing else "wrong")

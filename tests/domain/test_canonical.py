from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain import json_text
from app.domain.canonical import by_value

JSON_TEXT = st.recursive(
    st.sampled_from(["null", "true", "false", "0", "-0", "1", "1.0", "10e-1", "1.10", "1.1", '"1"', '"true"', '""'])
    | st.integers().map(str),
    lambda inner: (
        st.lists(inner, max_size=3).map(lambda parts: f"[{','.join(parts)}]")
        | st.dictionaries(st.sampled_from(["a", "a.b", "", "$ne"]), inner, max_size=3).map(
            lambda parts: "{" + ",".join(f'"{name}":{text}' for name, text in parts.items()) + "}"
        )
    ),
    max_leaves=8,
)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("1", "1.0", True),
        ("1.10", "1.1", True),
        ("1e3", "1000", True),
        ("18446744073709551617", "18446744073709551617.0", True),
        ("18446744073709551617", "18446744073709551616", False),
        ("0.1", "0.10000000000000000001", False),
        ("1", "true", False),
        ("0", "false", False),
        ("1", '"1"', False),
        ("null", "false", False),
        ('{"a":1,"b":2}', '{"b":2.0,"a":1}', True),
        ('{"a":1}', '{"a":1,"b":null}', False),
        ("[1,2]", "[2,1]", False),
        ("[]", "{}", False),
        ('{"a":[1]}', '{"a":[true]}', False),
    ],
)
def test_values_are_equal_by_what_they_are_worth(one: str, other: str, same: bool) -> None:
    assert (by_value(json_text.parse(one)) == by_value(json_text.parse(other))) is same


@given(JSON_TEXT, JSON_TEXT)
def test_equal_by_a_plain_comparison_of_the_values(one: str, other: str) -> None:
    left, right = json_text.parse(one), json_text.parse(other)
    assert (by_value(left) == by_value(right)) is _same(left, right)


def _same(left: Any, right: Any) -> bool:
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(_same(left[name], right[name]) for name in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(_same, left, right))
    return bool(left == right)

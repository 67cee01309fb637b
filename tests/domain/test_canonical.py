from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain import canonical, json_text
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


@pytest.mark.parametrize(
    ("text", "canonical_text"),
    [
        ('{"b": 1, "a": [1, 2]}', '{"a":[1,2],"b":1}'),
        ('{"a": "\\u00e9\\u2028\\/"}', '{"a":"é\u2028/"}'),
        ('{"a": "\\u001f\\n\\"\\\\"}', '{"a":"\\u001f\\n\\"\\\\"}'),
        ('{"n": [1.10, 1e3, 107505301260286111, 18446744073709551617]}',
         '{"n":[1.10,1e3,107505301260286111,18446744073709551617]}'),
        ('{"": 1, "__proto__": {}, "a.b": null, "$ne": true}', '{"":1,"$ne":true,"__proto__":{},"a.b":null}'),
    ],
)  # fmt: skip
def test_what_args_are_measured_in(text: str, canonical_text: str) -> None:
    assert canonical.dump(json_text.parse(text)) == canonical_text


strings = st.text(st.characters(exclude_categories=["Cs"]))
values = st.recursive(
    st.none() | st.booleans() | st.integers() | strings,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(strings, inner, max_size=4),
    max_leaves=25,
)


@given(values)
def test_canonical_text_says_the_same_whatever_the_order_of_keys(value: Any) -> None:
    text = canonical.dump(value)
    assert json.loads(text) == value
    assert canonical.dump(json.loads(json.dumps(value, sort_keys=True))) == text
    assert text == json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


@pytest.mark.parametrize(
    "text",
    ["1e400", "-1e400", '{"a": [1e309]}', "1" + "0" * 400, '"\\u0000"', '{"a\\u0000": 1}', '["\\ud800"]',
     '{"\\udfff": 1}', '{"a": {"b": [0, "x\\ud83d"]}}', "1.7976931348623159e308"],
)  # fmt: skip
def test_these_can_not_be_kept(text: str) -> None:
    assert canonical.fault(json_text.parse(text)) is not None


@pytest.mark.parametrize(
    "text",
    ["1e308", "-1.7976931348623157e308", "1e-400", "18446744073709551617", '"\\ud83d\\ude00"', "null", "true",
     '{"\\\\u0000": "\\u0001"}'],
)  # fmt: skip
def test_these_can_be_kept(text: str) -> None:
    assert canonical.fault(json_text.parse(text)) is None

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain import json_text

SPACE = st.text(" \t\n\r", max_size=3)
SPELLINGS = st.sampled_from(
    ["0", "-0", "1.0", "1e3", "1E+400", "123456789012345678901234567890", "true", "false", "null", '"\\u0000"',
     '"\\ud800"', '"\\/"', '" \\" \\\\"', '"é 😀"', '"\\u00e9"', '""']
)  # fmt: skip


@st.composite
def documents(draw: Any, depth: int = 3) -> tuple[str, str]:
    """A JSON text with any white space between its tokens, and the same without."""
    kind = draw(st.sampled_from(["scalar", "array", "object"])) if depth else "scalar"
    if kind == "scalar":
        text = draw(SPELLINGS)
        return text, text
    inner = draw(st.lists(documents(depth - 1), max_size=3))
    opening, closing = "[]" if kind == "array" else "{}"
    loose, tight = [], []
    for at, (spaced, bare) in enumerate(inner):
        name = draw(st.sampled_from(['"a"', '" a "', '"\\""', '""'])) if kind == "object" else ""
        colon = f"{draw(SPACE)}:{draw(SPACE)}" if kind == "object" else ""
        loose.append(f"{',' if at else ''}{draw(SPACE)}{name}{colon}{spaced}{draw(SPACE)}")
        tight.append(f"{',' if at else ''}{name}{':' if kind == 'object' else ''}{bare}")
    return f"{opening}{''.join(loose) or draw(SPACE)}{closing}", f"{opening}{''.join(tight)}{closing}"


@given(documents())
def test_compact_takes_white_space_between_tokens_and_nothing_else(texts: tuple[str, str]) -> None:
    loose, tight = texts
    assert json_text.compact(loose) == tight
    assert json_text.compact(tight) == tight


@given(st.lists(documents(), max_size=4))
def test_elements_are_the_text_that_they_were(texts: list[tuple[str, str]]) -> None:
    loose = [spaced for spaced, _ in texts]
    assert json_text.elements(f" [ {' , '.join(loose)} ]\n") == loose


@given(st.dictionaries(st.text(max_size=3), documents(), max_size=4))
def test_members_are_the_text_that_they_were(texts: dict[str, tuple[str, str]]) -> None:
    loose = {name: spaced for name, (spaced, _) in texts.items()}
    sent = ",".join(f"{json.dumps(name)} : {spaced}" for name, spaced in loose.items())
    assert json_text.members(f"{{{sent}}}") == loose


def test_the_last_of_a_repeated_key_counts() -> None:
    assert json_text.members('{"a":1,"\\u0061":2}') == {"a": "2"}


@pytest.mark.parametrize(
    "text",
    ["", "{", '{"a"}', '{"a":}', '{"a":1,}', '{"a":1}x', "{'a':1}", '{"a":NaN}', '{"a":-Infinity}', '{"a":"\x01"}',
     '{"a":01}', '{"a":[1,]}', '{"a":+1}', '{"a":.5}', "[1]", "null", '{"a":1}{', '{"a":' + "[" * 100_000 + "}"],
)  # fmt: skip
def test_what_is_no_json_object_has_no_members(text: str) -> None:
    with pytest.raises(json_text.NotJson):
        json_text.members(text)

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain import pointers

# RFC 6901, section 5, and what it says of arrays in section 4.
DOCUMENT = {
    "foo": ["bar", "baz"], "": 0, "a/b": 1, "c%d": 2, "e^f": 3, "g|h": 4, "i\\j": 5, 'k"l': 6, " ": 7, "m~n": 8,
    "null": None, "~1": 9, "01": {"-": 1}, "text": "abc", "number": 12,
}  # fmt: skip


@pytest.mark.parametrize(
    "pointer",
    ["", "/foo", "/foo/0", "/foo/1", "/", "/a~1b", "/c%d", "/e^f", "/g|h", "/i\\j", '/k"l', "/ ", "/m~0n", "/null",
     "/~01", "/01", "/01/-"],
)  # fmt: skip
def test_these_lead_to_a_value(pointer: str) -> None:
    assert pointers.resolves(pointer, DOCUMENT)


@pytest.mark.parametrize(
    "pointer",
    ["/foo/2", "/foo/-", "/foo/00", "/foo/01", "/foo/+1", "/foo/-1", "/foo/1.0", "/foo/ 1", "/foo/1 ", "/foo/1\n",
     "/foo/٠", "/foo/0/", "/foo/", "/nope", "/null/0", "/text/0", "/number/0", "//", "/01/0", "/FOO",
     "/foo/" + "9" * 5000],
)  # fmt: skip
def test_these_lead_to_nothing(pointer: str) -> None:
    assert not pointers.resolves(pointer, DOCUMENT)


@pytest.mark.parametrize("pointer", ["foo", "#", "#/foo", " /foo", "/a~", "/a~2", "/~~0", "/a~/b", "~0"])
def test_these_are_no_pointers(pointer: str) -> None:
    with pytest.raises(pointers.Malformed):
        pointers.tokens(pointer)


@pytest.mark.parametrize("whole", [None, 0, "x", [], {}, False])
def test_the_empty_pointer_is_the_whole_of_any_document(whole: Any) -> None:
    assert pointers.resolves("", whole)


documents = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=25,
)


def paths(document: Any, so_far: str = "") -> list[tuple[str, Any]]:
    """Every pointer into the document by our own escaping, with what is there."""
    found = [(so_far, document)]
    entries = document.items() if isinstance(document, dict) else []
    entries = enumerate(document) if isinstance(document, list) else entries
    for key, inner in entries:
        found += paths(inner, f"{so_far}/{str(key).replace('~', '~0').replace('/', '~1')}")
    return found


@given(documents)
def test_every_way_into_a_document_resolves_and_the_next_one_does_not(document: Any) -> None:
    for pointer, value in paths(document):
        assert pointers.resolves(pointer, document)
        if isinstance(value, list):
            for lost in ("-", str(len(value)), "00"):
                assert not pointers.resolves(f"{pointer}/{lost}", document)
        elif not isinstance(value, dict):
            assert not pointers.resolves(f"{pointer}/0", document)
            assert not pointers.resolves(f"{pointer}/", document)


@given(st.text(alphabet="/~01a-", max_size=8))
def test_the_grammar_is_the_rfcs(text: str) -> None:
    well_formed = (text == "" or text.startswith("/")) and "~" not in re.sub("~[01]", "", text)
    if well_formed:
        assert len(pointers.tokens(text)) == text.count("/")
    else:
        with pytest.raises(pointers.Malformed):
            pointers.tokens(text)

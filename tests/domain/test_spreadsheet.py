from __future__ import annotations

import csv
import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain import json_text, spreadsheet

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=20)


def read(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(spreadsheet.header() + text, newline="")))


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠"])
def test_no_cell_starts_a_formula(start: str) -> None:
    cell = f'{start}HYPERLINK("http://x","y")'
    (row,) = read(spreadsheet.line(json.dumps({"id": "1", "why": cell, "shouldSay": cell[1:]})))
    assert row["why"] == f"'{cell}"
    assert row["shouldSay"] == cell[1:]


@given(TEXT, TEXT, st.dictionaries(TEXT, TEXT, max_size=2))
def test_cells_come_back_whatever_they_hold(why: str, note: str, args: dict[str, str]) -> None:
    nested = json_text.dump([{"tool": "t", "args": args}])
    text = (
        f'{{"id":"1","shouldCall":{nested},"why":{json_text.dump(why)},"statusNote":{{"text":{json_text.dump(note)}}}}}'
    )
    (row,) = read(spreadsheet.line(text))
    assert row["why"].removeprefix("'") == why.removeprefix("'")
    assert row["shouldCall"] == nested
    assert json.loads(row["statusNote"]) == {"text": note}
    assert row["decisions"] == ""
    assert list(row) == list(spreadsheet.COLUMNS)


def test_lines_end_as_rfc_4180_says() -> None:
    assert spreadsheet.line('{"id":"a,\\"b\\""}') == '"a,""b"""' + "," * 26 + "\r\n"

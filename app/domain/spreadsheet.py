"""Corrections as CSV (RFC 4180) that a spreadsheet opens as text and nothing else."""

from __future__ import annotations

import csv
import io
from typing import Any

from app.domain import json_text

COLUMNS = (
    "id", "tenantId", "projectId", "runId", "subject", "decisions", "shouldCall", "mustNotCall", "answer", "shouldSay",
    "why", "items", "correctorGroupId", "expert", "madeBy", "participantId", "status", "sortedTo", "sorted", "link",
    "fixedIn", "reopenedIn", "statusNote", "createdAt", "updatedAt", "unregisteredAt", "supersededBy",
)  # fmt: skip
"""A correction's fields, in the order of the reference."""

_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")


def header() -> str:
    """The first line."""
    return _line(list(COLUMNS))


def line(correction: str) -> str:
    """The line of a correction, given as its JSON. Absent fields are empty, all but texts are JSON."""
    fields = json_text.parse(correction)
    return _line([_cell(fields.get(name, "")) for name in COLUMNS])


def _cell(value: Any) -> str:
    return defused(value if isinstance(value, str) else json_text.dump(value))


def defused(cell: str) -> str:
    """``cell``, with a ``'`` in front when a spreadsheet might run it as a formula (the way that OWASP recommends)."""
    return f"'{cell}" if cell.startswith(_FORMULA) else cell


def _line(cells: list[str]) -> str:
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\r\n").writerow(cells)
    return text.getvalue()

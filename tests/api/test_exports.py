"""GET /v1/corrections/export, and stats: of just the rows that the list shows, under every filter and permission."""

from __future__ import annotations

import csv
import io
import json
from itertools import combinations
from typing import Any

import pytest

from app.api.schemas.corrections import CorrectionShape
from app.domain import spreadsheet
from app.domain.model import Grant
from tests.api.corrected import exported, listed, many, stats
from tests.client import Client
from tests.conftest import ClientOf

__all__ = ["many"]

FILTERS = (
    "",
    "&status=open",
    "&status=removed",
    "&status=not-fixed,removed",
    "&status=with-owner&sortedTo=owner",
    "&sortedTo=none",
    "&sortedTo=none,improve",
    "&agentId=support",
    "&agentId=support&agentVersion=2.0.0",
    "&flowId=intake",
    "&from=experts",
    "&from=end-users",
    "&madeBy=me",
    "&participantId=u1",
    "&scopeKind=project&scopeId=q",
    "&scopeKind=org&scopeId=org",
    "&scopeKind=tenant&inherit=true",
    "&since=2020-01-01T00:00:00Z&until=2100-01-01T00:00:00Z",
    "&until=2020-01-01T00:00:00Z",
)
GROUPS = ("day", "status", "sortedTo", "subject", "version", "correctorGroup")


def value(row: dict[str, Any], name: str) -> str:
    shown = {
        "day": row["createdAt"][:10],
        "status": row["status"],
        "sortedTo": row.get("sortedTo", "none"),
        "subject": f"{row['subject']['kind']}:{row['subject']['id']}",
        "version": row["subject"]["version"],
        "correctorGroup": row.get("correctorGroupId", "none"),
    }
    return str(shown[name])


@pytest.mark.parametrize("who", ["admin", "project", "org", "nobody"])
def test_counts_and_exports_are_of_the_rows_of_the_list(
    admin: Client, client_of: ClientOf, many: str, who: str
) -> None:
    grants = {"project": [Grant("project", "read", "p")], "org": [Grant("org", "admin", "org")], "nobody": []}
    client = admin if who == "admin" else client_of(grants=grants[who])
    for query in (*FILTERS, f"&correctorGroupId={many}"):
        rows = listed(client, query)
        assert exported(client, query) == rows
        assert stats(client, query)["total"] == len(rows)
        assert stats(client, query)["groups"] == []
    for names in [*combinations(GROUPS, 1), *combinations(GROUPS, 2)]:
        rows = listed(client)
        found = stats(client, f"groupBy={','.join(names)}")["groups"]
        expected = dict.fromkeys(sorted({tuple(value(row, name) for name in names) for row in rows}), 0)
        for row in rows:
            expected[tuple(value(row, name) for name in names)] += 1
        assert [(tuple(group[name] for name in names), group["count"]) for group in found] == list(expected.items())
    assert len(listed(admin)) == 16


def test_csv_has_every_field_and_no_formula(admin: Client, many: str) -> None:
    answer = admin.get("/v1/corrections/export?format=csv")
    assert answer.content_type == "text/csv; charset=utf-8; header=present"
    assert answer.headers["Content-Disposition"] == 'attachment; filename="corrections.csv"'
    rows = list(csv.DictReader(io.StringIO(answer.text, newline="")))
    shown = listed(admin)
    assert len(rows) == len(shown)
    for row, correction in zip(rows, shown, strict=True):
        assert set(correction) <= set(row)
        for name, cell in row.items():
            expected = correction.get(name, "")
            if name == "shouldSay" and expected:
                expected = "'=1+1"
            assert (cell if isinstance(expected, str) else json.loads(cell)) == expected


def test_jsonl_is_exact(admin: Client, many: str) -> None:
    answer = admin.get("/v1/corrections/export")
    assert answer.content_type == "application/x-ndjson"
    assert answer.headers["Content-Disposition"] == 'attachment; filename="corrections.jsonl"'
    assert str(10**30) in answer.text
    page = admin.get("/v1/corrections?limit=100").text
    assert page == f'{{"data":[{",".join(answer.text.splitlines())}],"hasMore":false}}'


def test_an_export_of_none(admin: Client) -> None:
    assert admin.get("/v1/corrections/export").data == b""
    assert admin.get("/v1/corrections/export?format=csv").text == spreadsheet.header()
    assert admin.get("/v1/corrections/export?format=xml").json["error"]["code"] == "bad-input"
    assert admin.get("/v1/corrections/export?format=csv&format=jsonl").json["error"]["code"] == "bad-input"


def test_the_columns_are_the_fields_of_a_correction() -> None:
    assert tuple(field.data_key for field in CorrectionShape().fields.values()) == spreadsheet.COLUMNS


def test_an_unknown_filter_is_told_which_there_are(admin: Client) -> None:
    refused = admin.get("/v1/corrections/export?format=csv&colour=red").json["error"]
    assert refused["message"].startswith("/query/colour is not a parameter here; there are agentId, agentVersion, ")
    for filter_ in FILTERS[1:]:
        for part in filter_[1:].split("&"):
            assert f", {part.partition('=')[0]}" in refused["message"].replace("are ", ", ")
    assert admin.get("/v1/me?x=1").json["error"]["message"] == "/query/x is not a parameter here; there are none."

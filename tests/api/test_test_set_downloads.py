"""Test sets as one stream, and as files for other test runners."""

from __future__ import annotations

import json
from typing import Any

import pytest
from sqlalchemy import Engine

from tests.api.test_test_sets import NDJSON, Correct, cases, correct
from tests.client import Client
from tests.factories import a_run

__all__ = ["correct"]


def test_the_stream_is_the_pages_together(admin: Client, correct: Correct, engine: Engine, tenant: str) -> None:
    assert admin.get("/v1/test-sets", headers=NDJSON).data == b""
    for _ in range(12):
        correct(a_run(engine, tenant))
    answer = admin.get("/v1/test-sets?limit=5", headers=NDJSON)
    assert answer.content_type == "application/x-ndjson"
    assert answer.text.endswith("\n")
    assert [json.loads(line) for line in answer.text.splitlines()] == cases(admin)
    assert admin.get("/v1/test-sets", headers={"Accept": "*/*"}).json["hasMore"] is False


@pytest.mark.parametrize(
    ("form", "name", "media_type"),
    [
        ("jsonl", "test-set.jsonl", "application/x-ndjson"),
        ("openai-evals", "test-set.jsonl", "application/x-ndjson"),
        ("inspect", "test-set.jsonl", "application/x-ndjson"),
        ("promptfoo", "test-set.json", "application/json"),
    ],
)
def test_downloads_hold_every_case(
    admin: Client, correct: Correct, engine: Engine, tenant: str, form: str, name: str, media_type: str
) -> None:
    def downloaded() -> list[dict[str, Any]]:
        answer = admin.get(f"/v1/test-sets/export?format={form}&projectId=p")
        assert answer.status_code == 200
        assert answer.content_type == media_type
        assert answer.headers["Content-Disposition"] == f'attachment; filename="{name}"'
        whole: list[dict[str, Any]] = (
            answer.json if form == "promptfoo" else list(map(json.loads, answer.text.splitlines()))
        )
        return whole

    assert downloaded() == []
    runs = [a_run(engine, tenant) for _ in range(3)]
    for run in runs:
        correct(run)
    assert len(downloaded()) == 3
    for run in runs:
        assert any(run in json.dumps(sample) for sample in downloaded())


def test_a_download_takes_no_page_and_no_unknown_format(admin: Client) -> None:
    for query in ("format=xml", "limit=3", "cursor=x", "format=jsonl&format=inspect"):
        assert admin.get(f"/v1/test-sets/export?{query}").status_code == 400

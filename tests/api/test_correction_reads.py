"""GET one, its ETag, and its history."""

from __future__ import annotations

import pytest
from sqlalchemy import Engine

from app.transaction import transaction
from tests.client import Client
from tests.factories import a_run


@pytest.fixture
def correction(admin: Client, engine: Engine, tenant: str) -> str:
    answer = admin.post("/v1/corrections", {"runId": a_run(engine, tenant, id="r"), "answer": "right"})
    return str(answer.json["id"])


def test_unknown_ones_are_not_found(admin: Client) -> None:
    for path in ("nope", "%00", "x" * 5000, "%F0%9F%98%80"):
        for rest in ("", "/history"):
            answer = admin.get(f"/v1/corrections/{path}{rest}")
            assert (answer.status_code, answer.json["error"]["code"]) == (404, "correction-not-found")


def test_a_state_that_the_caller_has_is_not_sent_again(admin: Client, correction: str) -> None:
    first = admin.get(f"/v1/corrections/{correction}")
    etag = first.headers["ETag"]
    for sent in (etag, f'"x", {etag}', f"W/{etag}", "*"):
        answer = admin.get(f"/v1/corrections/{correction}", headers={"If-None-Match": sent})
        assert (answer.status_code, answer.data, answer.headers["ETag"]) == (304, b"", etag)
    for sent in ('"x"', "", etag.strip('"') + "0"):
        answer = admin.get(f"/v1/corrections/{correction}", headers={"If-None-Match": sent})
        assert (answer.status_code, answer.data) == (200, first.data)


def test_the_etag_changes_with_the_correction_and_not_with_its_copys_context(
    admin: Client, engine: Engine, tenant: str, correction: str
) -> None:
    before = admin.get(f"/v1/corrections/{correction}")
    with transaction(engine) as tx:
        tx.run("UPDATE copies SET context = '{\"history\":[]}' WHERE tenant_id = %s", (tenant,))
    with_context = admin.get(f"/v1/corrections/{correction}")
    assert with_context.json["run"] == before.json["run"] | {"context": {"history": []}}
    assert with_context.headers["ETag"] == before.headers["ETag"]
    admin.post("/v1/corrections", {"runId": "r", "answer": "right"})
    superseded = admin.get(f"/v1/corrections/{correction}")
    assert superseded.headers["ETag"] != before.headers["ETag"]


def test_an_erased_copy_shows_that_it_is(admin: Client, engine: Engine, tenant: str, correction: str) -> None:
    with transaction(engine) as tx:
        tx.run(
            "UPDATE copies SET input = NULL, output = NULL, erased_at = '2026-01-31T12:00:00Z' WHERE tenant_id = %s",
            (tenant,),
        )
    run = admin.get(f"/v1/corrections/{correction}").json["run"]
    assert (run["input"], run["output"], run["erasedAt"]) == (None, None, "2026-01-31T12:00:00.000Z")


def test_answers_are_not_to_be_cached(admin: Client, correction: str) -> None:
    for path in ("", f"/{correction}", f"/{correction}/history"):
        assert admin.get(f"/v1/corrections{path}").headers["Cache-Control"] == "no-store"

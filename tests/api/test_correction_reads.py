"""GET one, its ETag, and its history."""

from __future__ import annotations

import pytest
from sqlalchemy import Engine

from app.api.schemas.corrections import CopyShape, CorrectionWithCopy
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


EVERYTHING = {
    "decisions": "wrong",
    "should_call": '[{"tool":"t","args":{"n":1.0}}]',
    "must_not_call": '["x"]',
    "answer": "wrong",
    "should_say": "No.",
    "why": "so",
    "items": '[{"key":"k","pointer":"","rank":0,"verdict":"wrong"}]',
    "corrector_group_id": "g",
    "expert": True,
    "participant_id": "u",
    "status": "with-owner",
    "sorted_to": "owner",
    "sorted_by_kind": "user",
    "sorted_by_id": "ann",
    "sorted_reason": "r",
    "sorted_at": "2026-01-01T00:00:00.001Z",
    "link": '{"kind":"pull-request","url":"https://example.com/1"}',
    "fixed_version": "2",
    "fixed_how": "pin",
    "fixed_by_kind": "user",
    "fixed_by_id": "ben",
    "fixed_at": "2026-01-02T00:00:00.020Z",
    "reopened_version": "3",
    "reopened_how": "went-back",
    "reopened_by_kind": "service",
    "reopened_by_id": "s",
    "reopened_at": "2026-01-03T00:00:00.300Z",
    "status_note_text": "n",
    "status_note_by_kind": "user",
    "status_note_by_id": "cem",
    "status_note_at": "2026-01-04T00:00:00Z",
    "unregistered_at": "2026-01-05T00:00:00Z",
    "superseded_by": "other",
}
SHOWN = {
    "sorted": {"by": {"kind": "user", "id": "ann"}, "reason": "r", "at": "2026-01-01T00:00:00.001Z"},
    "fixedIn": {
        "version": "2", "how": "pin", "by": {"kind": "user", "id": "ben"}, "at": "2026-01-02T00:00:00.020Z",
    },
    "reopenedIn": {
        "version": "3", "how": "went-back", "by": {"kind": "service", "id": "s"}, "at": "2026-01-03T00:00:00.300Z",
    },
    "statusNote": {"text": "n", "by": {"kind": "user", "id": "cem"}, "at": "2026-01-04T00:00:00.000Z"},
    "link": {"kind": "pull-request", "url": "https://example.com/1"},
    "unregisteredAt": "2026-01-05T00:00:00.000Z",
    "supersededBy": "other",
    "sortedTo": "owner",
    "expert": True,
}  # fmt: skip


def test_a_correction_that_has_everything_shows_just_what_its_shape_says(
    admin: Client, engine: Engine, tenant: str, correction: str
) -> None:
    sets = ", ".join(f"{name} = %({name})s" for name in EVERYTHING)
    with transaction(engine) as tx:
        tx.run(f"UPDATE corrections SET {sets} WHERE tenant_id = %(tenant)s", EVERYTHING | {"tenant": tenant})
        tx.run("UPDATE copies SET context = '{}', erased_at = '2026-01-01T00:00:00Z' WHERE tenant_id = %s", (tenant,))
    shown = admin.get(f"/v1/corrections/{correction}").json
    shape = CorrectionWithCopy()
    assert set(shown) == {field.data_key for field in shape.fields.values()}
    assert set(shown["run"]) == {field.data_key for field in CopyShape().fields.values()}
    assert shape.validate(shown) == {}
    assert SHOWN.items() <= shown.items()

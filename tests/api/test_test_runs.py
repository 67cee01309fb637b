"""Test runs: what is taken, how it is graded and counted, and what is shown."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import Engine

from app.domain.model import Grant
from app.store.engine import reading
from tests.client import Client
from tests.conftest import ClientOf
from tests.factories import a_run

TESTED = {"kind": "agent", "id": "support", "version": "2.0.0"}
WRONG_CALL = {"decisions": "wrong", "shouldCall": [{"tool": "refund", "args": {"order": 7}}], "mustNotCall": ["delete"]}
REFUND = {"tool": "refund", "args": {"order": 7.0, "why": "late"}}


def record(client: Client, engine: Engine, body: dict[str, Any], **run: Any) -> str:
    answer = client.post("/v1/corrections", {"runId": a_run(engine, client.caller.tenant_id, **run)} | body)
    assert answer.status_code == 201, answer.text
    return str(answer.json["id"])


def report(client: Client, *results: dict[str, Any], **more: Any) -> Any:
    return client.post("/v1/test-runs", {"projectId": "p", "subject": TESTED, "results": list(results)} | more)


def counts(**some: int) -> dict[str, int]:
    return {"right": 0, "wrong": 0, "fixed": 0, "reopened": 0, "unchanged": 0, "ignored": 0} | some


def test_a_test_run_is_taken_and_shown(admin: Client, engine: Engine) -> None:
    one, two = record(admin, engine, WRONG_CALL), record(admin, engine, {"answer": "wrong", "why": "no"})
    answer = report(
        admin, {"correctionId": one, "verdict": "right"}, {"correctionId": two, "verdict": "wrong"}, source="ci",
        at="2026-01-01T00:00:00.123456Z",
    )  # fmt: skip
    assert answer.status_code == 202, answer.text
    taken = answer.json
    assert taken == {"id": taken["id"], "status": "processing", "counts": counts(right=1, wrong=1)}
    row = {
        "id": taken["id"],
        "projectId": "p",
        "subject": TESTED,
        "source": "ci",
        "at": "2026-01-01T00:00:00.123Z",
        "status": "processing",
        "counts": counts(right=1, wrong=1),
    }
    assert admin.get(f"/v1/test-runs/{taken['id']}").json == row
    assert admin.get("/v1/test-runs").json == {"data": [row], "hasMore": False}
    assert admin.get("/v1/test-runs?projectId=q").json == {"data": [], "hasMore": False}


@pytest.mark.parametrize(
    ("said", "result", "verdict"),
    [
        (WRONG_CALL, {"observed": {"calls": [REFUND]}}, "right"),
        (WRONG_CALL, {"observed": {"calls": []}}, "wrong"),
        (WRONG_CALL, {"observed": {"calls": [REFUND, {"tool": "delete"}]}}, "wrong"),
        (WRONG_CALL | {"answer": "right"}, {"observed": {"calls": [REFUND]}, "answerVerdict": "right"}, "right"),
        (WRONG_CALL | {"answer": "right"}, {"observed": {"calls": [REFUND]}, "answerVerdict": "wrong"}, "wrong"),
        (
            WRONG_CALL | {"items": [{"key": "a", "verdict": "right"}]},
            {"observed": {"calls": [REFUND]}, "answerVerdict": "right"},
            "right",
        ),
        ({"answer": "right"}, {"verdict": "wrong"}, "wrong"),
    ],
)
def test_decisions_are_graded_from_what_was_observed(
    admin: Client, engine: Engine, said: dict[str, Any], result: dict[str, Any], verdict: str
) -> None:
    answer = report(admin, {"correctionId": record(admin, engine, said)} | result)
    assert answer.status_code == 202, answer.text
    assert answer.json["counts"] == counts(**{verdict: 1})


@pytest.mark.parametrize(
    ("said", "result", "path"),
    [
        (WRONG_CALL, {}, "verdict"),
        (WRONG_CALL, {"verdict": "right", "observed": {"calls": []}}, "observed"),
        (WRONG_CALL, {"verdict": "maybe"}, "verdict"),
        (WRONG_CALL, {"verdict": "right", "answerVerdict": "right"}, "answerVerdict"),
        (WRONG_CALL, {"observed": {"calls": []}, "answerVerdict": "right"}, "answerVerdict"),
        (WRONG_CALL | {"answer": "right"}, {"observed": {"calls": []}}, "answerVerdict"),
        ({"decisions": "right"}, {"observed": {"calls": []}}, "observed"),
        ({"answer": "wrong", "why": "no"}, {"observed": {"calls": []}, "answerVerdict": "right"}, "observed"),
        (WRONG_CALL, {"observed": {}}, "observed/calls"),
        (WRONG_CALL, {"observed": {"calls": [{"args": {}}]}}, "observed/calls/0/tool"),
        (WRONG_CALL, {"observed": {"calls": [{"tool": "x", "args": []}]}}, "observed/calls/0/args"),
        (WRONG_CALL, {"verdict": "right", "detail": {}, "score": 1}, "score"),
    ],
)
def test_results_that_can_not_be_taken_are_named(
    admin: Client, engine: Engine, said: dict[str, Any], result: dict[str, Any], path: str
) -> None:
    good = {"correctionId": record(admin, engine, said), "verdict": "right"}
    bad = {"correctionId": record(admin, engine, said)} | result
    answer = report(admin, good, bad)
    assert answer.status_code == 400
    assert [issue["path"] for issue in answer.json["error"]["details"]["issues"]] == [f"/results/1/{path}"]
    assert admin.get("/v1/test-runs").json["data"] == []


def test_corrections_of_elsewhere_are_all_named(admin: Client, engine: Engine) -> None:
    good = record(admin, engine, WRONG_CALL, subject_version="7")
    other_project = record(admin, engine, WRONG_CALL, project_id="q")
    other_subject = record(admin, engine, WRONG_CALL, subject_id="sales")
    other_kind = record(admin, engine, WRONG_CALL, subject_kind="flow")
    ids = [other_project, good, other_subject, "nope", other_kind]
    answer = report(admin, *({"correctionId": i, "verdict": "right"} for i in ids))
    assert (answer.status_code, answer.json["error"]["code"]) == (400, "bad-input")
    issues = answer.json["error"]["details"]["issues"]
    assert [issue["path"] for issue in issues] == [f"/results/{at}/correctionId" for at in (0, 2, 3, 4)]
    assert report(admin, {"correctionId": good, "verdict": "right"}).status_code == 202


def test_a_correction_can_not_be_named_twice(admin: Client, engine: Engine) -> None:
    one = {"correctionId": record(admin, engine, WRONG_CALL), "verdict": "right"}
    issues = report(admin, one, one).json["error"]["details"]["issues"]
    assert [issue["path"] for issue in issues] == ["/results/1/correctionId"]


def test_there_is_at_least_one_result_and_at_most_ten_thousand(admin: Client, engine: Engine) -> None:
    one = {"correctionId": record(admin, engine, WRONG_CALL), "verdict": "right"}
    for results in ([], [one | {"correctionId": str(at)} for at in range(10_001)]):
        issues = report(admin, *results).json["error"]["details"]["issues"]
        assert [issue["path"] for issue in issues] == ["/results"]


def test_ended_ones_are_ignored(admin: Client, engine: Engine, tenant: str) -> None:
    run = a_run(engine, tenant)
    ids = [admin.post("/v1/corrections", {"runId": run} | WRONG_CALL).json["id"] for _ in range(2)]
    removed = record(admin, engine, WRONG_CALL)
    admin.post(f"/v1/corrections/{removed}/remove")
    answer = report(admin, *({"correctionId": i, "verdict": "right"} for i in [*ids, removed]))
    assert answer.json["counts"] == counts(right=1, ignored=2)


def test_details_are_kept_to_the_letter(admin: Client, engine: Engine, tenant: str) -> None:
    one = record(admin, engine, WRONG_CALL)
    body = (
        '{"projectId":"p","subject":{"kind":"agent","id":"support","version":"2"},"results":[{"correctionId":"%s",'
        '"verdict":"right","detail": {"b":1.0, "a":1e3, "s":"\\u0000\\ud800", "n":123456789012345678901234567890}}]}'
    )
    assert admin.post("/v1/test-runs", data=(body % one).encode()).status_code == 202
    with reading(engine) as db:
        kept = db.value("SELECT detail FROM test_results WHERE tenant_id = %s", (tenant,))
    assert kept == r'{"b":1.0,"a":1e3,"s":"\u0000\ud800","n":123456789012345678901234567890}'


def test_a_future_time_counts_as_now(admin: Client, engine: Engine) -> None:
    taken = report(
        admin, {"correctionId": record(admin, engine, WRONG_CALL), "verdict": "right"}, at="2999-01-01T00:00:00Z"
    ).json
    assert admin.get(f"/v1/test-runs/{taken['id']}").json["at"] < "2999"


def test_pages_hold_each_test_run_once(admin: Client, engine: Engine) -> None:
    one = record(admin, engine, WRONG_CALL)
    made = [report(admin, {"correctionId": one, "verdict": "right"}).json["id"] for _ in range(5)]
    first = admin.get("/v1/test-runs?limit=3").json
    rest = admin.get(f"/v1/test-runs?limit=3&cursor={first['nextCursor']}").json
    assert [row["id"] for row in first["data"] + rest["data"]] == made[::-1]


def test_who_may(admin: Client, client_of: ClientOf, engine: Engine) -> None:
    one = {"correctionId": record(admin, engine, WRONG_CALL), "verdict": "right"}
    made = report(admin, one).json["id"]
    reader = client_of(grants=[Grant("project", "read", "p")])
    stranger = client_of(grants=[Grant("project", "admin", "q")])
    assert report(reader, one).status_code == 403
    assert report(stranger, one).json["error"]["code"] == "project-not-found"
    assert report(client_of(grants=[Grant("project", "write", "p")]), one).status_code == 202
    assert reader.get(f"/v1/test-runs/{made}").status_code == 200
    assert len(reader.get("/v1/test-runs").json["data"]) == 2
    answer = stranger.get(f"/v1/test-runs/{made}")
    assert (answer.status_code, answer.json["error"]["code"]) == (404, "test-run-not-found")
    assert stranger.get("/v1/test-runs").json["data"] == []

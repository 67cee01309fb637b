from __future__ import annotations

from typing import Any

import pytest

from app.domain.errors import BadInput
from app.domain.judging import Judge, of_run

CALLS = {"id": "calls", "runId": "r", "status": "fixed", "decisions": "wrong",
         "shouldCall": [{"tool": "refund", "args": {"n": 1}}], "mustNotCall": ["cancel"]}  # fmt: skip
BOTH = CALLS | {"id": "both", "status": "open", "answer": "wrong", "shouldSay": "No."}
ANSWER = {"id": "answer", "runId": "r", "status": "fixed", "answer": "wrong", "why": "rude"}
ITEMS = {"id": "items", "runId": "r", "status": "open", "items": [{"key": "k", "verdict": "wrong"}]}
RIGHT = {"id": "right", "runId": "r", "status": "fixed", "decisions": "right"}
ALL = (CALLS, BOTH, ANSWER, ITEMS, RIGHT)

REFUND = {"calls": [{"tool": "refund", "args": {"n": 1, "m": 2}}]}
NOTHING: dict[str, Any] = {"calls": []}


def verdicts(said: dict[str, Any]) -> dict[str, Any]:
    return {judgement.result["correctionId"]: judgement.verdict for judgement in Judge(ALL).judge(said)}


@pytest.mark.parametrize(
    ("said", "found"),
    [
        ({"observed": REFUND}, {"calls": "right"}),
        ({"observed": NOTHING}, {"calls": "wrong"}),
        (
            {"observed": REFUND, "answerVerdict": "wrong"},
            {"calls": "right", "both": "wrong", "answer": "wrong", "items": "wrong"},
        ),
        (
            {"observed": NOTHING, "answerVerdict": "right"},
            {"calls": "wrong", "both": "wrong", "answer": "right", "items": "right"},
        ),
        ({"answerVerdict": "right"}, {"answer": "right", "items": "right"}),
        ({"verdict": "wrong"}, dict.fromkeys(("calls", "both", "answer", "items", "right"), "wrong")),
    ],
)
def test_a_runs_result_counts_for_the_corrections_that_it_tells_of(said: dict[str, Any], found: dict[str, str]) -> None:
    assert verdicts({"runId": "r"} | said) == found
    assert verdicts({"runId": "another"} | said) == {}


def test_results_are_what_the_service_takes() -> None:
    said = {"runId": "r", "observed": REFUND, "answerVerdict": "right", "detail": {"ms": 7}}
    results = {judgement.result["correctionId"]: judgement.result for judgement in Judge(ALL).judge(said)}
    detail = {"detail": {"ms": 7}}
    assert results["calls"] == {"correctionId": "calls", "observed": REFUND} | detail
    assert results["both"] == {"correctionId": "both", "observed": REFUND, "answerVerdict": "right"} | detail
    assert results["answer"] == {"correctionId": "answer", "verdict": "right"} | detail


def test_a_correction_may_be_named_itself() -> None:
    (known,) = Judge(ALL).judge({"correctionId": "calls", "observed": NOTHING})
    assert known.wrong_again
    (unknown,) = Judge(ALL).judge({"correctionId": "gone", "verdict": "wrong"})
    assert (unknown.verdict, unknown.wrong_again) == (None, False)


def test_wrong_again_is_what_stood_fixed_and_is_wrong() -> None:
    found = Judge(ALL).judge({"runId": "r", "verdict": "wrong"})
    assert {judgement.result["correctionId"] for judgement in found if judgement.wrong_again} == {
        "calls",
        "answer",
        "right",
    }
    assert not any(judgement.wrong_again for judgement in Judge(ALL).judge({"runId": "r", "verdict": "right"}))


@pytest.mark.parametrize("said", [{}, {"runId": "r", "correctionId": "c", "verdict": "right"}])
def test_a_result_is_of_one_thing(said: dict[str, Any]) -> None:
    with pytest.raises(BadInput):
        Judge(ALL).judge(said)


def test_nothing_is_told_of_an_answer_that_nobody_judged() -> None:
    assert of_run({"runId": "r", "observed": REFUND}, ANSWER) is None
    assert of_run({"runId": "r", "observed": REFUND}, BOTH) is None

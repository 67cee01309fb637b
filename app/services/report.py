"""Takes a test run in: grades it, and gives it its place among the events of its subject."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from app.domain import jobs
from app.domain.errors import BadInput
from app.domain.grading import ToolCall, grade, grade_decisions
from app.domain.model import Caller, Subject, Verdict
from app.services.projects import project_for
from app.store import events, outbox, running, test_runs
from app.store.engine import Db
from app.store.ids import new_id
from app.store.test_runs import Expected, NewResult, NewTestRun

_NO_CORRECTION = "is no correction of this project and subject"


@dataclass(frozen=True, slots=True)
class Result:
    """What a test says of one correction: ``verdict``, or else the calls that were ``observed``, to be graded.

    ``detail`` is JSON text.
    """

    correction_id: str
    verdict: Verdict | None = None
    observed: tuple[ToolCall, ...] | None = None
    answer_verdict: Verdict | None = None
    detail: str | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """A test run as it is reported. ``subject.version`` is what was tested; ``at`` is now when ``None`` or later."""

    project_id: str
    subject: Subject
    results: tuple[Result, ...]
    source: str | None = None
    at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Taken:
    """An accepted test run. Nothing came of it yet."""

    id: str
    counts: dict[str, int]


def report(tx: Db, caller: Caller, wanted: Report) -> Taken:
    """Accept a test run.

    :raises ProjectNotFound, PermissionDenied: unless the caller has write on the project.
    :raises BadInput: naming every result that can't be taken; nothing is stored then.
    """
    project_for(tx, caller, wanted.project_id, "write")
    tenant_id, project_id, subject = caller.tenant_id, wanted.project_id, wanted.subject
    ids = [result.correction_id for result in wanted.results]
    verdicts = _verdicts(wanted.results, test_runs.expected(tx, tenant_id, project_id, subject, ids))
    current, _ = running.lock_current(tx, tenant_id, project_id, subject)
    standing = test_runs.standing(tx, tenant_id, ids)
    # Not before the subject is locked: whoever decides on corrections locks it first, too.
    _refuse([_unknown(at) for at, correction_id in enumerate(ids) if correction_id not in standing])
    now, test_run_id = running.clock(tx), new_id()
    seq = events.accept(
        tx,
        tenant_id,
        project_id,
        subject,
        kind="test-run",
        source_id=test_run_id,
        now=now,
        after=current,
        moved=False,
        decides="named" if current.version == subject.version else "none",
    )
    results = [
        NewResult(result.correction_id, verdict, not standing[result.correction_id], result.detail)
        for result, verdict in zip(wanted.results, verdicts, strict=True)
    ]
    new = NewTestRun(
        test_run_id, project_id, subject, wanted.source, min(wanted.at or now, now), now, caller.principal, seq
    )
    counts = _counts(results)
    test_runs.add(tx, tenant_id, new, results, counts)
    outbox.put(tx, tenant_id, [jobs.apply(project_id, subject.kind, subject.id)])
    return Taken(test_run_id, counts)


def _verdicts(results: tuple[Result, ...], expected: Mapping[str, Expected]) -> list[Verdict]:
    verdicts, issues = list[Verdict](), list[dict[str, str]]()
    for at, result in enumerate(results):
        asked = expected.get(result.correction_id)
        fault = _fault(result, asked)
        if fault is not None:
            issues.append({"path": f"/results/{at}/{fault[0]}", "message": fault[1]})
        elif asked is not None and not issues:
            verdicts.append(_verdict(result, asked))
    _refuse(issues)
    return verdicts


def _refuse(issues: list[dict[str, str]]) -> None:
    if issues:
        raise BadInput(f"{issues[0]['path']} {issues[0]['message']}.", issues=issues)


def _unknown(at: int) -> dict[str, str]:
    """Of the result at ``at``: retention took its correction since it was looked up."""
    return {"path": f"/results/{at}/correctionId", "message": _NO_CORRECTION}


def _fault(result: Result, asked: Expected | None) -> tuple[str, str] | None:
    """Which field of ``result`` can't be taken, and why, if any."""
    if asked is None:
        return "correctionId", _NO_CORRECTION
    if result.observed is None:
        return None
    if asked.decisions != "wrong":
        return "observed", "can't be graded: the correction doesn't say that decisions were wrong"
    if asked.speaks_of_answer and result.answer_verdict is None:
        return "answerVerdict", "is required: the correction speaks of the answer or of items"
    if not asked.speaks_of_answer and result.answer_verdict is not None:
        return "answerVerdict", "must be left out: the correction doesn't speak of the answer"
    return None


def _verdict(result: Result, asked: Expected) -> Verdict:
    if result.verdict is not None:
        return result.verdict
    decisions = grade_decisions(asked.should_call, asked.must_not_call, result.observed or ())
    return grade(decisions, result.answer_verdict)


def _counts(results: list[NewResult]) -> dict[str, int]:
    counted = [result.verdict for result in results if not result.ignored]
    right = counted.count("right")
    return {
        "right": right,
        "wrong": len(counted) - right,
        "fixed": 0,
        "reopened": 0,
        "unchanged": 0,
        "ignored": len(results) - len(counted),
    }

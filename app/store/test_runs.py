"""Test runs: what they said of corrections, and what came of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from app.domain import json_text, times
from app.domain.grading import ToolCall
from app.domain.model import Principal, ProjectRef, Subject, Verdict
from app.domain.permission import Reach
from app.store.conditions import Conditions, Position
from app.store.engine import Db, Row
from app.store.running import keys_of


@dataclass(frozen=True, slots=True)
class Expected:
    """What a correction asks of a test."""

    decisions: Verdict | None
    should_call: tuple[ToolCall, ...]
    must_not_call: tuple[str, ...]
    speaks_of_answer: bool


@dataclass(frozen=True, slots=True)
class NewResult:
    """A verdict on a correction. ``ignored``: it was superseded or removed by then. ``detail`` is JSON text."""

    correction_id: str
    verdict: Verdict
    ignored: bool
    detail: str | None


@dataclass(frozen=True, slots=True)
class NewTestRun:
    """A test run with its place, ``seq``, in the log of its subject. ``subject.version`` is what was tested."""

    id: str
    project_id: str
    subject: Subject
    source: str | None
    at: datetime
    accepted_at: datetime
    by: Principal
    seq: int


@dataclass(frozen=True, slots=True)
class ShownTestRun:
    """A test run as the wire shows it, and its project."""

    row: dict[str, Any]
    project: ProjectRef


_EXPECTED = """
SELECT c.id, c.decisions, c.should_call, c.must_not_call, c.answer IS NOT NULL OR c.items IS NOT NULL
  FROM corrections c
 WHERE c.tenant_id = %(tenant)s AND c.id = ANY(%(ids)s) AND c.project_id = %(project)s AND c.subject_kind = %(kind)s
   AND c.subject_id = %(id)s
"""


def expected(
    db: Db, tenant_id: str, project_id: str, subject: Subject, correction_ids: Sequence[str]
) -> dict[str, Expected]:
    """What those of the corrections ask that are the project's and the subject's, live or not."""
    rows = db.rows(_EXPECTED, keys_of(tenant_id, project_id, subject) | {"ids": list(correction_ids)})
    return {row[0]: _expected(*row[1:]) for row in rows}


def _expected(decisions: Verdict | None, should: str | None, must_not: str | None, speaks: bool) -> Expected:
    calls = json_text.parse(should) if should else []
    tools = json_text.parse(must_not) if must_not else []
    return Expected(decisions, tuple(ToolCall(c["tool"], c["args"]) for c in calls), tuple(tools), speaks)


def standing(db: Db, tenant_id: str, correction_ids: Sequence[str]) -> dict[str, bool]:
    """Those of the corrections that are there, and whether each is neither superseded nor removed.

    Retention takes none of them away until this transaction ends. It waits for nobody who only changes one.
    """
    rows = db.rows(
        "SELECT id, unregistered_at IS NULL FROM corrections WHERE tenant_id = %s AND id = ANY(%s) FOR KEY SHARE",
        (tenant_id, list(correction_ids)),
    )
    return {row[0]: row[1] for row in rows}


_ADD = """
INSERT INTO test_runs (tenant_id, id, project_id, subject_kind, subject_id, subject_version, source, at, accepted_at,
                       by_kind, by_id, seq, right_count, wrong_count, ignored_count)
VALUES (%(tenant)s, %(test_run)s, %(project)s, %(kind)s, %(id)s, %(version)s, %(source)s, %(at)s, %(now)s,
        %(by_kind)s, %(by_id)s, %(seq)s, %(right)s, %(wrong)s, %(ignored)s)
"""

_ADD_RESULTS = """
INSERT INTO test_results (tenant_id, test_run_id, correction_id, project_id, subject_kind, subject_id, version, at, seq,
                          verdict, ignored, detail)
SELECT %(tenant)s, %(test_run)s, r.correction_id, %(project)s, %(kind)s, %(id)s, %(version)s, %(at)s, %(seq)s,
       r.verdict, r.ignored, r.detail
  FROM unnest(%(corrections)s::text[], %(verdicts)s::text[], %(ignored_ones)s::boolean[], %(details)s::text[])
       AS r(correction_id, verdict, ignored, detail)
"""


def add(db: Db, tenant_id: str, new: NewTestRun, results: Sequence[NewResult], counts: Mapping[str, int]) -> None:
    """Store a test run with its results."""
    values = {
        "test_run": new.id, "version": new.subject.version, "source": new.source, "at": new.at, "now": new.accepted_at,
        "by_kind": new.by.kind, "by_id": new.by.id, "seq": new.seq, "right": counts["right"], "wrong": counts["wrong"],
        "ignored": counts["ignored"], "corrections": [r.correction_id for r in results],
        "verdicts": [r.verdict for r in results], "ignored_ones": [r.ignored for r in results],
        "details": [r.detail for r in results],
    }  # fmt: skip
    keys = keys_of(tenant_id, new.project_id, new.subject)
    db.run(_ADD, keys | values)
    db.run(_ADD_RESULTS, keys | values)


_COUNT = """
UPDATE test_runs SET fixed_count = fixed_count + %(fixed)s, reopened_count = reopened_count + %(reopened)s
 WHERE tenant_id = %(tenant)s AND id = %(id)s
"""


def count(db: Db, tenant_id: str, test_run_id: str, *, fixed: int, reopened: int) -> None:
    """Count transitions that a test run brought. Holds its row until the transaction ends: do it late."""
    db.run(_COUNT, {"tenant": tenant_id, "id": test_run_id, "fixed": fixed, "reopened": reopened})


_SELECT = """
SELECT t.accepted_at, t.id, t.project_id, t.subject_kind, t.subject_id, t.subject_version, t.source, t.at,
       w.applied_seq >= t.seq, t.right_count, t.wrong_count, t.fixed_count, t.reopened_count, t.ignored_count, p.org_id
  FROM test_runs t
  JOIN projects p ON p.tenant_id = t.tenant_id AND p.id = t.project_id
  JOIN running w ON w.tenant_id = t.tenant_id AND w.project_id = t.project_id AND w.subject_kind = t.subject_kind
                AND w.subject_id = t.subject_id
"""


def show(db: Db, tenant_id: str, test_run_id: str) -> ShownTestRun | None:
    """A test run."""
    row = db.row(f"{_SELECT} WHERE t.tenant_id = %s AND t.id = %s", (tenant_id, test_run_id))
    return None if row is None else ShownTestRun(_shown(row), ProjectRef(row[2], row[-1]))


def newest(
    db: Db, tenant_id: str, reach: Reach, project_id: str | None, count: int, position: Position | None
) -> list[tuple[Position, dict[str, Any]]]:
    """Up to ``count`` test runs within ``reach`` after ``position``, last accepted first, each with its position."""
    asked = Conditions({"tenant": tenant_id, "count": count}, ["t.tenant_id = %(tenant)s"])
    asked.within(reach, "t.project_id")
    asked.equal("t.project_id", "project", project_id)
    asked.after(position, "t.accepted_at", "t.id")
    rows = db.rows(f"{_SELECT} WHERE {asked.sql} ORDER BY t.accepted_at DESC, t.id DESC LIMIT %(count)s", asked.params)
    return [((row[0], row[1]), _shown(row)) for row in rows]


def _shown(row: Row) -> dict[str, Any]:
    _, test_run, project, kind, subject, version, source, at, applied, right, wrong, fixed, reopened, ignored, _ = row
    shown = {
        "id": test_run,
        "projectId": project,
        "subject": {"kind": kind, "id": subject, "version": version},
        "source": source,
        "at": times.wire(at),
        "status": "applied" if applied else "processing",
        "counts": {
            "right": right,
            "wrong": wrong,
            "fixed": fixed,
            "reopened": reopened,
            "unchanged": right + wrong - fixed - reopened if applied else 0,
            "ignored": ignored,
        },
    }
    return {name: value for name, value in shown.items() if value is not None}

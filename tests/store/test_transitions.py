"""The rule in SQL makes of every case what the rule in Python makes of it."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, get_args

import pytest
from sqlalchemy import Engine

from app.domain.lifecycle import Corrected, Occasion, Running, decide
from app.domain.model import (
    RULE,
    FixedIn,
    How,
    Principal,
    Queue,
    ReopenedIn,
    Sorted,
    Standing,
    Status,
    Subject,
)
from app.store import passes, standings, transitions
from app.store.engine import Db
from app.store.passes import Batch
from app.store.running import keys_of
from app.transaction import transaction
from tests.factories import a_run

THEN, NOW = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 2, 1, tzinfo=UTC)
ANN = Principal("user", "ann")
RUNS = "2.0.0"
ALL = Batch("", "~", 0, 1)


@dataclass(frozen=True)
class Case:
    corrected: Corrected
    standing: Standing
    verdict: Any
    resolved: bool


def cases() -> Iterator[Case]:
    """Every live case, and where it may stand: whatever can be told apart, and holds."""
    statuses = [status for status in get_args(Status) if status != "removed"]
    queues = [None, *get_args(Queue)]
    fixes = [None, FixedIn("pin", THEN, "1.5.0", ANN), FixedIn("recorded-right", THEN)]
    reopenings = [None, ReopenedIn("1.6.0", "went-back", THEN, ANN)]
    flags = [False, True]
    for status, queue, fixed, reopened, own, end_user, verdict, resolved in itertools.product(
        statuses, queues, fixes, reopenings, flags, flags, [None, "right", "wrong"], flags
    ):
        if status in ("open", "with-owner") and (status == "with-owner") != (queue == "owner"):
            continue
        if (status == "fixed" and (fixed is None or reopened)) or (reopened and not fixed):
            continue
        sorted_ = Sorted(RULE, THEN) if queue else None
        standing = Standing(status, queue, sorted_, fixed, reopened)
        yield Case(Corrected(RUNS if own else "1.0.0", end_user), standing, verdict, resolved)


_INSERT = """
INSERT INTO corrections (tenant_id, id, project_id, run_id, subject_kind, subject_id, subject_version, answer,
                         made_by_kind, made_by_id, participant_sha256, end_user, status, sorted_to, sorted_by_kind,
                         sorted_at, fixed_version, fixed_how, fixed_by_kind, fixed_by_id, fixed_at, reopened_version,
                         reopened_how, reopened_by_kind, reopened_by_id, reopened_at, created_at, updated_at)
SELECT %(tenant)s, id, 'p', 'run-' || id, 'agent', 'support', subject_version, 'right', 'user', 'ann', '', end_user,
       status, sorted_to, sorted_by_kind, sorted_at, fixed_version, fixed_how, fixed_by_kind, fixed_by_id, fixed_at,
       reopened_version, reopened_how, reopened_by_kind, reopened_by_id, reopened_at, now(), now()
  FROM json_populate_recordset(NULL::corrections, %(rows)s)
"""


def put_in(tx: Db, tenant: str, each: dict[str, Case]) -> None:
    rows = [
        standings.columns(case.standing)
        | {"id": name, "subject_version": case.corrected.version, "end_user": case.corrected.end_user}
        for name, case in each.items()
    ]
    tx.run(_INSERT, {"tenant": tenant, "rows": json.dumps(rows, default=str)})
    tested = {name: case.verdict for name, case in each.items() if case.verdict}
    tx.run(
        "INSERT INTO test_results (tenant_id, test_run_id, correction_id, project_id, subject_kind, subject_id,"
        " version, at, seq, verdict, ignored)"
        " SELECT %s, 'tested', u.id, 'p', 'agent', 'support', %s, now(), 0, u.verdict, false"
        " FROM unnest(%s::text[], %s::text[]) AS u(id, verdict)",
        (tenant, RUNS, list(tested), list(tested.values())),
    )
    tx.run(
        "INSERT INTO resolved_corrections SELECT %s, 'source', 'p', unnest(%s::text[])",
        (tenant, [name for name, case in each.items() if case.resolved]),
    )


@pytest.mark.parametrize("how", get_args(How))
def test_both_rules_agree_on_every_case(engine: Engine, tenant: str, how: How) -> None:
    by = None if how == "latest" else ANN
    a_run(engine, tenant)
    each = {f"{place:05d}": case for place, case in enumerate(cases())}
    keys = keys_of(tenant, "p", Subject("agent", "support"))
    with transaction(engine) as tx:
        put_in(tx, tenant, each)
        tx.run(
            "INSERT INTO accepted_events VALUES"
            " (%s, 'p', 'agent', 'support', 1, 'deploy', 'source', %s, %s, %s, %s, %s, true, 'all', 'source')",
            (tenant, NOW, RUNS, how, by and by.kind, by and by.id),
        )
        (event,) = passes.deciding(tx, keys, 0, 1)
        made = {one.correction_id: one.becomes for one in transitions.decide(tx, keys, ALL, event)}
        again = transitions.decide(tx, keys, ALL, event)
        rows = tx.dicts("SELECT * FROM corrections WHERE tenant_id = %s", (tenant,))
        after = {row["id"]: standings.standing_of(row) for row in rows}
    expected = {name: decided(case, how, by) for name, case in each.items()}
    assert len(each) > 1000
    assert {name: standing or each[name].standing for name, standing in expected.items()} == after
    assert made == {name: standing.status for name, standing in expected.items() if standing}
    assert again == []


def decided(case: Case, how: How, by: Principal | None) -> Standing | None:
    occasion = Occasion(NOW, Running(RUNS, how, by), case.verdict, case.resolved)
    return decide(case.corrected, case.standing, occasion)

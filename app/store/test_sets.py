"""Corrected runs as cases: which runs make up a test set, and all that is said of each."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from typing import Any

import orjson

from app.domain import json_text
from app.domain.cases import Case
from app.domain.filtering import Filters
from app.domain.model import Subject
from app.domain.permission import Reach
from app.domain.weighing import Weighed
from app.store.engine import Db, Row
from app.store.listings import matching


@dataclass(frozen=True, slots=True)
class Chosen:
    """Which runs: those first corrected from ``filters.since`` to ``filters.until``, whose path begins with
    ``segments``, and of which one live correction fits everything else in ``filters``.
    """

    filters: Filters
    segments: tuple[tuple[str, str], ...] = ()


# The runs are chosen, ordered and cut by their ids alone; payloads and what is said are then read one run at a time.
_CASES = """
SELECT o.run_id, o.project_id, o.subject_kind, o.subject_id, o.subject_version, coalesce(o.input, 'null'), o.context,
       coalesce(o.output, 'null'), o.segments, o.captured_at, said.corrections, said.weights
  FROM (SELECT o.captured_at, o.run_id FROM copies o
         WHERE o.tenant_id = %(tenant)s AND o.replay_of IS NULL AND o.erased_at IS NULL {of_the_run}
           AND NOT EXISTS (SELECT FROM runs r
                            WHERE r.tenant_id = o.tenant_id AND r.id = o.run_id AND r.erased_at IS NOT NULL)
           AND EXISTS (SELECT FROM corrections c
                        WHERE {matching} AND c.run_id = o.run_id AND c.unregistered_at IS NULL)
         ORDER BY o.captured_at DESC, o.run_id DESC {limit}) k
 CROSS JOIN LATERAL (SELECT * FROM copies o WHERE o.tenant_id = %(tenant)s AND o.run_id = k.run_id LIMIT 1) o
 CROSS JOIN LATERAL (
       SELECT array_agg(correction_json(c) ORDER BY c.created_at DESC, c.id DESC) AS corrections,
              array_agg(coalesce(g.weight, 1)::text ORDER BY c.created_at DESC, c.id DESC) AS weights
         FROM corrections c
         LEFT JOIN corrector_groups g ON g.tenant_id = c.tenant_id AND g.id = c.corrector_group_id
        WHERE c.tenant_id = o.tenant_id AND c.run_id = o.run_id AND c.unregistered_at IS NULL) said
 ORDER BY k.captured_at DESC, k.run_id DESC
"""

_OF_THE_RUN = {
    "project_id": "o.project_id = %(project)s",
    "agent_id": "o.subject_kind = 'agent' AND o.subject_id = %(agent)s",
    "agent_version": "o.subject_version = %(version)s",
    "flow_id": "o.subject_kind = 'flow' AND o.subject_id = %(flow)s",
    "since": "o.captured_at >= %(since)s",
    "until": "o.captured_at < %(until)s",
}
"""Conditions that a run shares with its corrections, so that an index of the copies can serve them; and its times."""


def cases_sql(tenant_id: str, chosen: Chosen, reach: Reach) -> tuple[str, dict[str, Any]]:
    """The statement for all chosen cases in the projects in ``reach``, newest first, and its parameters."""
    return _sql(tenant_id, chosen, reach, [], "")


def newest(
    db: Db, tenant_id: str, chosen: Chosen, reach: Reach, count: int, position: tuple[datetime, str] | None
) -> list[Case]:
    """Up to ``count`` cases after ``position`` (a case's ``captured_at`` and run id), newest first."""
    after = ["(o.captured_at, o.run_id) < (%(at)s, %(last)s)"] if position else []
    sql, params = _sql(tenant_id, chosen, reach, after, "LIMIT %(count)s")
    params["count"] = count
    params["at"], params["last"] = position or (None, None)
    return [case_of(row) for row in db.rows(sql, params)]


def _sql(tenant_id: str, chosen: Chosen, reach: Reach, conditions: list[str], limit: str) -> tuple[str, dict[str, Any]]:
    filters = chosen.filters
    fits, params = matching(tenant_id, replace(filters, since=None, until=None), reach)
    params |= {"since": filters.since, "until": filters.until}
    conditions = conditions + [sql for name, sql in _OF_THE_RUN.items() if getattr(filters, name) is not None]
    if chosen.segments:
        conditions.append("jsonb_path_query_array(o.segments::jsonb, %(steps)s) = %(path)s::jsonb")
        params["steps"] = f"$[0 to {len(chosen.segments) - 1}]"
        params["path"] = orjson.dumps([{"key": key, "value": value} for key, value in chosen.segments]).decode()
    of_the_run = "".join(f" AND {condition}" for condition in conditions)
    return _CASES.format(of_the_run=of_the_run, matching=fits, limit=limit), params


def case_of(row: Row) -> Case:
    """The case in a row of ``cases_sql``."""
    run_id, project_id, kind, subject_id, version, given, context, output, segments, at, corrections, weights = row
    pairs = zip(corrections, weights, strict=True)
    return Case(
        run_id,
        project_id,
        Subject(kind, subject_id, version),
        given,
        context,
        output,
        segments,
        at,
        tuple(Weighed(json_text.parse(text), Decimal(weight)) for text, weight in pairs),
        tuple(corrections),
    )

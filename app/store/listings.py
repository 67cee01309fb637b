"""Lists of corrections. A page reads its rows in order from an index, however many there are.

A filter of several values (statuses always are one) is a merge: the newest rows of each value, then the newest of
those. The same goes for a caller who may read some projects only.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from app.domain.filtering import Filters
from app.domain.permission import Reach
from app.store.corrections import participant_digest
from app.store.engine import Db

Row = tuple[datetime, str, str]
"""A row's ``createdAt``, id and JSON."""

_PAGE = """
SELECT x.created_at, x.id, correction_json(x.c)
  FROM {sources}
 CROSS JOIN LATERAL (
       SELECT c.created_at, c.id, c FROM corrections c
        WHERE c.tenant_id = %(tenant)s AND c.superseded_by IS NULL AND {conditions}
        ORDER BY c.created_at DESC, c.id DESC LIMIT %(count)s) x
 ORDER BY x.created_at DESC, x.id DESC LIMIT %(count)s
"""

_PROJECTS = """(SELECT p.id FROM projects p WHERE p.tenant_id = %(tenant)s AND {conditions})"""


def newest(
    db: Db, tenant_id: str, filters: Filters, reach: Reach, count: int, position: tuple[datetime, str] | None
) -> list[Row]:
    """Up to ``count`` corrections after ``position``, newest first."""
    params: dict[str, Any] = {"tenant": tenant_id, "count": count, "statuses": list(filters.statuses)}
    sources, conditions = ["unnest(%(statuses)s) AS s(status)"], ["c.status = s.status"]
    if filters.sorted_to:
        params["sorted_to"] = list(filters.sorted_to)
        sources.append("unnest(%(sorted_to)s) AS q(sorted_to)")
        conditions.append("coalesce(c.sorted_to, 'none') = q.sorted_to")
    projects = _projects(filters, reach, params)
    if projects is not None:
        sources.append(f"{projects} AS p")
        conditions.append("c.project_id = p.id")
    conditions += _single_valued(filters, params)
    if position is not None:
        params["at"], params["last"] = position
        conditions.append("(c.created_at, c.id) < (%(at)s, %(last)s)")
    sql = _PAGE.format(sources=" CROSS JOIN ".join(sources), conditions=" AND ".join(conditions))
    return db.rows(sql, params)


def matching(tenant_id: str, filters: Filters, reach: Reach) -> tuple[str, dict[str, Any]]:
    """A condition on ``corrections c`` that holds for just the rows of the list, and its parameters."""
    params: dict[str, Any] = {"tenant": tenant_id, "statuses": list(filters.statuses)}
    conditions = ["c.tenant_id = %(tenant)s", "c.superseded_by IS NULL", "c.status = ANY (%(statuses)s)"]
    if filters.sorted_to:
        params["sorted_to"] = list(filters.sorted_to)
        conditions.append("coalesce(c.sorted_to, 'none') = ANY (%(sorted_to)s)")
    projects = _projects(filters, reach, params)
    if projects is not None:
        conditions.append(f"c.project_id IN {projects}")
    return " AND ".join(conditions + _single_valued(filters, params)), params


# Ids are put in order, not rows: that fits in memory and comes from an index, so that the first row comes at once.
_EVERYTHING = """
SELECT x.json
  FROM (SELECT c.created_at, c.id FROM corrections c WHERE {matching} ORDER BY c.created_at DESC, c.id DESC) k
 CROSS JOIN LATERAL (SELECT correction_json(c) AS json FROM corrections c
                      WHERE c.tenant_id = %(tenant)s AND c.id = k.id LIMIT 1) x
 ORDER BY k.created_at DESC, k.id DESC
"""


def everything(tenant_id: str, filters: Filters, reach: Reach) -> tuple[str, dict[str, Any]]:
    """The statement for the JSON of all rows of the list, newest first, and its parameters."""
    condition, params = matching(tenant_id, filters, reach)
    return _EVERYTHING.format(matching=condition), params


def _projects(filters: Filters, reach: Reach, params: dict[str, Any]) -> str | None:
    """The projects that are asked for and may be read; ``None`` for every one."""
    conditions = []
    if not reach.everything:
        params["readable"], params["readable_orgs"] = list(reach.project_ids), list(reach.org_ids)
        conditions.append("(p.id = ANY (%(readable)s) OR p.org_id = ANY (%(readable_orgs)s))")
    if filters.project_id is not None:
        params["project"] = filters.project_id
        conditions.append("p.id = %(project)s")
    if filters.org_id is not None:
        params["org"] = filters.org_id
        conditions.append("p.org_id = %(org)s")
    return _PROJECTS.format(conditions=" AND ".join(conditions)) if conditions else None


_CONDITIONS = {
    "run": "c.run_id = %(run)s",
    "agent": "c.subject_kind = 'agent' AND c.subject_id = %(agent)s",
    "version": "c.subject_version = %(version)s",
    "flow": "c.subject_kind = 'flow' AND c.subject_id = %(flow)s",
    "made_by_id": "c.made_by_kind = %(made_by_kind)s AND c.made_by_id = %(made_by_id)s",
    "since": "c.created_at >= %(since)s",
    "until": "c.created_at < %(until)s",
    "group": "c.corrector_group_id = %(group)s",
    "participant": "c.participant_sha256 = %(participant)s AND c.participant_id IS NOT NULL",
}
_FROM = {None: [], "experts": ["c.expert"], "end-users": ["c.end_user"]}


def _single_valued(filters: Filters, params: dict[str, Any]) -> list[str]:
    """The conditions of the filters that take one value."""
    made_by, participant = filters.made_by, filters.participant_id
    values: dict[str, Any] = {
        "run": filters.run_id,
        "agent": filters.agent_id,
        "version": filters.agent_version,
        "flow": filters.flow_id,
        "made_by_id": made_by.id if made_by else None,
        "since": filters.since,
        "until": filters.until,
        "group": filters.corrector_group_id,
        "participant": participant_digest(participant) if participant is not None else None,
    }
    given = {name: value for name, value in values.items() if value is not None}
    params.update(given, made_by_kind=made_by.kind if made_by else None)
    return [_CONDITIONS[name] for name in given] + _FROM[filters.made_from]

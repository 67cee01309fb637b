"""Corrector groups. What restricts one is kept as JSON text with the keys that the wire has."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

from app.domain.groups import AssertableBy, CorrectorGroup, GroupScope
from app.domain.model import ProjectRef
from app.domain.permission import Reach
from app.store.engine import Db, Row

_COLUMNS = """
g.id, g.name, g.weight, g.description, g.scope_kind, g.project_id, p.org_id, g.agent_id, g.assertable_by,
g.created_at, g.updated_at, g.unregistered_at
"""
_FROM = "corrector_groups g LEFT JOIN projects p ON p.tenant_id = g.tenant_id AND p.id = g.project_id"

_ADD = """
INSERT INTO corrector_groups (tenant_id, id, name, weight, description, scope_kind, project_id, agent_id,
                              assertable_by, created_at, updated_at)
SELECT %(tenant)s, %(id)s, %(name)s, %(weight)s, %(description)s, %(kind)s, %(project)s, %(agent)s, %(assertable)s,
       t.now, t.now
  FROM (SELECT date_trunc('milliseconds', clock_timestamp()) AS now) t
"""


def add(
    db: Db,
    tenant_id: str,
    group_id: str,
    name: str,
    weight: float,
    description: str | None,
    scope: GroupScope,
    assertable_by: AssertableBy | None,
) -> None:
    """Store a new group.

    :raises CorrectorGroupNameTaken: if a group of that scope has the name.
    """
    values = {
        "tenant": tenant_id,
        "id": group_id,
        "name": name,
        "weight": weight,
        "description": description,
        "kind": scope.kind,
        "project": scope.project.id if scope.project else None,
        "agent": scope.agent_id,
        "assertable": assertable_text(assertable_by),
    }
    db.run(_ADD, values)


def find(db: Db, tenant_id: str, group_id: str, *, lock: bool = False) -> CorrectorGroup | None:
    """The group, retired or not. ``lock`` holds it for the transaction."""
    suffix = " FOR UPDATE OF g" if lock else ""
    row = db.row(f"SELECT {_COLUMNS} FROM {_FROM} WHERE g.tenant_id = %s AND g.id = %s{suffix}", (tenant_id, group_id))
    return None if row is None else _group(row)


_NEWEST = f"""
SELECT {_COLUMNS} FROM {_FROM}
 WHERE g.tenant_id = %(tenant)s AND g.unregistered_at IS NULL
   AND (%(kind)s::text IS NULL OR g.scope_kind = %(kind)s)
   AND (%(project)s::text IS NULL OR g.project_id = %(project)s)
   AND (%(agent)s::text IS NULL OR g.agent_id = %(agent)s)
   AND (%(everything)s OR g.scope_kind = 'tenant' OR g.project_id = ANY(%(projects)s::text[])
        OR p.org_id = ANY(%(orgs)s::text[]))
   AND (%(at)s::timestamptz IS NULL OR (g.created_at, g.id) < (%(at)s, %(last)s))
 ORDER BY g.created_at DESC, g.id DESC LIMIT %(count)s
"""


def newest(
    db: Db,
    tenant_id: str,
    readable: Reach,
    count: int,
    position: tuple[datetime, str] | None,
    *,
    scope_kind: str | None = None,
    project_id: str | None = None,
    agent_id: str | None = None,
) -> list[CorrectorGroup]:
    """Up to ``count`` groups in use after ``position``, newest first, of the tenant and of what is ``readable``."""
    at, last = position or (None, None)
    values = {
        "tenant": tenant_id,
        "kind": scope_kind,
        "project": project_id,
        "agent": agent_id,
        "everything": readable.everything,
        "projects": list(readable.project_ids),
        "orgs": list(readable.org_ids),
        "at": at,
        "last": last,
        "count": count,
    }
    return [_group(row) for row in db.rows(_NEWEST, values)]


def change(
    db: Db,
    tenant_id: str,
    group_id: str,
    weight: float,
    description: str | None,
    assertable_by: AssertableBy | None,
) -> None:
    """Write what may change of a group."""
    db.run(
        "UPDATE corrector_groups SET weight = %(weight)s, description = %(description)s,"
        " assertable_by = %(assertable)s, updated_at = clock_timestamp()"
        " WHERE tenant_id = %(tenant)s AND id = %(id)s",
        {
            "tenant": tenant_id,
            "id": group_id,
            "weight": weight,
            "description": description,
            "assertable": assertable_text(assertable_by),
        },
    )


def retire(db: Db, tenant_id: str, group_id: str) -> None:
    """End the group, once: its name is free again, and no new correction may name it."""
    db.run(
        "UPDATE corrector_groups g SET unregistered_at = t.now, updated_at = t.now"
        " FROM (SELECT clock_timestamp() AS now) t"
        " WHERE g.tenant_id = %s AND g.id = %s AND g.unregistered_at IS NULL",
        (tenant_id, group_id),
    )


def assertable_text(rule: AssertableBy | None) -> str | None:
    """``rule`` as it is stored: only the parts that are set."""
    if rule is None:
        return None
    parts: dict[str, Any] = {
        "minReviewerRole": rule.min_reviewer_role,
        "principalKinds": list(rule.principal_kinds),
        "principalIds": list(rule.principal_ids),
    }
    return json.dumps({name: value for name, value in parts.items() if value})


def assertable_of(text: str | None) -> AssertableBy | None:
    """The rule from what ``assertable_text`` made of it."""
    if text is None:
        return None
    parts = json.loads(text)
    return AssertableBy(
        parts.get("minReviewerRole"), tuple(parts.get("principalKinds", ())), tuple(parts.get("principalIds", ()))
    )


def _group(row: Row) -> CorrectorGroup:
    group_id, name, weight, description, kind, project_id, org_id, agent_id, assertable, created, updated, ended = row
    scope = GroupScope(kind, ProjectRef(project_id, org_id) if project_id else None, agent_id)
    return CorrectorGroup(
        group_id, name, weight, scope, created, updated, description, assertable_of(assertable), ended
    )

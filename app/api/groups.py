"""``/v1/corrector-groups``."""

from __future__ import annotations

from typing import Any

import orjson

from app.api.routes import Answer, Call, Routes, after, answer, page
from app.api.schemas.base import present
from app.api.schemas.groups import GroupChange, GroupPage, GroupQuery, GroupShape, GroupWanted
from app.domain import times
from app.domain.errors import (
    CorrectorGroupNameTaken,
    CorrectorGroupNotFound,
    CorrectorGroupUnregistered,
    PermissionDenied,
    ProjectNotFound,
)
from app.domain.groups import AssertableBy, CorrectorGroup, may_manage
from app.domain.model import Caller
from app.domain.permission import reach
from app.services.keep_groups import Wanted, change_group, create_group, readable_group, retire_group
from app.store import groups

routes = Routes("corrector groups")


@routes.add(
    "POST",
    "/v1/corrector-groups",
    body=GroupWanted,
    answers={201: GroupShape},
    errors=(PermissionDenied, ProjectNotFound, CorrectorGroupNameTaken),
)
def add_group(call: Call) -> Answer:
    """Make a corrector group.

    Needs admin on its scope. A name is taken once in a scope; a retired group's name is free again.
    """
    body = call.body
    scope = body["scope"]
    wanted = Wanted(
        body["name"],
        body["weight"],
        scope["kind"],
        scope.get("project_id"),
        scope.get("agent_id"),
        body.get("description"),
        _rule(body.get("assertable_by")),
    )
    return answer(_shown(create_group(call.tx, call.caller, wanted), call.caller), 201)


@routes.add("GET", "/v1/corrector-groups", query=GroupQuery, answers={200: GroupPage})
def list_groups(call: Call) -> Answer:
    """List corrector groups in use, newest first.

    The tenant's groups, and those of projects that the caller may read.
    """
    limit = call.query["limit"]
    filters = {name: call.query.get(name) for name in ("scope_kind", "project_id", "agent_id")}
    rows = groups.newest(call.db, call.caller.tenant_id, reach(call.caller, "read"), limit + 1, after(call), **filters)
    return page(
        call,
        rows,
        limit,
        lambda group: (group.created_at, group.id),
        lambda group: orjson.dumps(_shown(group, call.caller)).decode(),
    )


@routes.add("GET", "/v1/corrector-groups/{groupId}", answers={200: GroupShape}, missing=CorrectorGroupNotFound)
def get_group(call: Call) -> Answer:
    """Fetch a corrector group, retired or not. Needs read on its scope; everybody reads the tenant's groups."""
    return answer(_shown(readable_group(call.db, call.caller, call.path["groupId"]), call.caller))


@routes.add(
    "PATCH",
    "/v1/corrector-groups/{groupId}",
    body=GroupChange,
    answers={200: GroupShape},
    errors=(PermissionDenied, CorrectorGroupUnregistered),
    missing=CorrectorGroupNotFound,
)
def patch_group(call: Call) -> Answer:
    """Change a corrector group's weight, description or restriction.

    Needs admin on its scope. Corrections that were made under it keep what they were (``expert`` or not).
    """
    changes = dict(call.body)
    if "assertable_by" in changes:
        changes["assertable_by"] = _rule(changes["assertable_by"])
    return answer(_shown(change_group(call.tx, call.caller, call.path["groupId"], changes), call.caller))


@routes.add(
    "POST",
    "/v1/corrector-groups/{groupId}/unregister",
    answers={200: GroupShape},
    errors=(PermissionDenied,),
    missing=CorrectorGroupNotFound,
)
def unregister_group(call: Call) -> Answer:
    """Retire a corrector group; older corrections keep it.

    Needs admin on its scope. Doing it twice answers the same.
    """
    return answer(_shown(retire_group(call.tx, call.caller, call.path["groupId"]), call.caller))


def _rule(parts: dict[str, Any] | None) -> AssertableBy | None:
    if parts is None:
        return None
    kinds, ids = parts.get("principal_kinds", ()), parts.get("principal_ids", ())
    return AssertableBy(parts.get("min_reviewer_role"), tuple(dict.fromkeys(kinds)), tuple(dict.fromkeys(ids)))


def _shown(group: CorrectorGroup, caller: Caller) -> dict[str, Any]:
    scope = {"kind": group.scope.kind, "projectId": group.scope.project and group.scope.project.id}
    rule = group.assertable_by
    shown = {
        "id": group.id,
        "name": group.name,
        "weight": _number(group.weight),
        "description": group.description,
        "scope": present(scope | {"agentId": group.scope.agent_id}),
        "assertableBy": _shown_rule(rule, may_manage(caller, group.scope)) if rule else None,
        "createdAt": times.wire(group.created_at),
        "updatedAt": times.wire(group.updated_at),
        "unregisteredAt": times.wire(group.unregistered_at) if group.unregistered_at else None,
    }
    return present(shown)


def _shown_rule(rule: AssertableBy, ids_too: bool) -> dict[str, Any]:
    shown = {
        "minReviewerRole": rule.min_reviewer_role,
        "principalKinds": list(rule.principal_kinds) or None,
        "principalIds": list(rule.principal_ids) or None if ids_too else None,
        "principalCount": len(rule.principal_ids) or None,
    }
    return present(shown)


def _number(weight: float) -> int | float:
    """``3`` for 3.0, as long as a double holds every whole number."""
    return int(weight) if weight.is_integer() and weight < 2**53 else weight

"""Makes, changes and retires corrector groups."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from app.domain.errors import (
    CorrectorGroupNotFound,
    CorrectorGroupUnregistered,
    PermissionDenied,
)
from app.domain.groups import AssertableBy, CorrectorGroup, GroupScope, GroupScopeKind, may_manage, may_read
from app.domain.model import Caller
from app.services.projects import project_for
from app.store import groups
from app.store.engine import Db
from app.store.ids import new_id


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a new group shall be. ``project_id`` and ``agent_id`` go with ``scope_kind``."""

    name: str
    weight: float
    scope_kind: GroupScopeKind
    project_id: str | None = None
    agent_id: str | None = None
    description: str | None = None
    assertable_by: AssertableBy | None = None


def create_group(tx: Db, caller: Caller, wanted: Wanted) -> CorrectorGroup:
    """Make a group.

    :raises ProjectNotFound: if the caller knows no such project; ``PermissionDenied`` without admin on the scope;
        ``CorrectorGroupNameTaken`` if a group of that scope has the name.
    """
    scope = _scope(tx, caller, wanted)
    _need_manage(caller, scope)
    group_id = new_id()
    groups.add(
        tx, caller.tenant_id, group_id, wanted.name, wanted.weight, wanted.description, scope, wanted.assertable_by
    )
    return _there(groups.find(tx, caller.tenant_id, group_id))


def readable_group(db: Db, caller: Caller, group_id: str, *, lock: bool = False) -> CorrectorGroup:
    """The group, retired or not.

    :raises CorrectorGroupNotFound: if the tenant has none of that id, or the caller can't read its scope.
    """
    group = groups.find(db, caller.tenant_id, group_id, lock=lock)
    if group is None or not may_read(caller, group.scope):
        raise CorrectorGroupNotFound("There is no such corrector group.")
    return group


def change_group(tx: Db, caller: Caller, group_id: str, changes: Mapping[str, Any]) -> CorrectorGroup:
    """Change ``weight``, ``description`` or ``assertable_by`` (``None``: no longer restricted).

    :raises CorrectorGroupNotFound: as ``readable_group``; ``PermissionDenied`` without admin on its scope;
        ``CorrectorGroupUnregistered`` if it was retired.
    """
    group = readable_group(tx, caller, group_id, lock=True)
    _need_manage(caller, group.scope)
    if group.unregistered_at is not None:
        raise CorrectorGroupUnregistered("This corrector group was retired; it can't be changed any more.")
    groups.change(
        tx,
        caller.tenant_id,
        group_id,
        changes.get("weight", group.weight),
        changes.get("description", group.description),
        changes.get("assertable_by", group.assertable_by),
    )
    return _there(groups.find(tx, caller.tenant_id, group_id))


def retire_group(tx: Db, caller: Caller, group_id: str) -> CorrectorGroup:
    """End a group for new corrections; doing it twice changes nothing.

    :raises CorrectorGroupNotFound: as ``readable_group``; ``PermissionDenied`` without admin on its scope.
    """
    group = readable_group(tx, caller, group_id, lock=True)
    _need_manage(caller, group.scope)
    groups.retire(tx, caller.tenant_id, group_id)
    return _there(groups.find(tx, caller.tenant_id, group_id))


def _scope(tx: Db, caller: Caller, wanted: Wanted) -> GroupScope:
    if wanted.project_id is None:
        return GroupScope("tenant")
    project = project_for(tx, caller, wanted.project_id, "read")
    return GroupScope(wanted.scope_kind, project, wanted.agent_id)


def _need_manage(caller: Caller, scope: GroupScope) -> None:
    if not may_manage(caller, scope):
        where = "the tenant" if scope.project is None else f"project {scope.project.id!r}"
        raise PermissionDenied(f"This needs 'admin' on {where}.", permission="admin")


def _there(group: CorrectorGroup | None) -> CorrectorGroup:
    assert group is not None, "written in this transaction"
    return group

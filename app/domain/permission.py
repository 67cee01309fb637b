"""What a caller may do: admin implies write implies read, and a wider scope holds the narrower ones."""

from __future__ import annotations

from dataclasses import dataclass

from app.domain.errors import PermissionDenied
from app.domain.model import Caller, Permission, ProjectRef

_RANK: dict[str, int] = {"read": 1, "write": 2, "admin": 3}


@dataclass(frozen=True, slots=True)
class Reach:
    """The projects in which a caller has a permission: all, or those named by id or by org."""

    everything: bool
    project_ids: tuple[str, ...] = ()
    org_ids: tuple[str, ...] = ()


def reach(caller: Caller, permission: Permission) -> Reach:
    """Where ``caller`` has ``permission``, for filtering inside a query."""
    if may_tenant(caller, permission):
        return Reach(everything=True)
    held = [g for g in caller.grants if _RANK[g.permission] >= _RANK[permission] and g.scope_id]
    return Reach(
        everything=False,
        project_ids=tuple(g.scope_id for g in held if g.scope_kind == "project" and g.scope_id),
        org_ids=tuple(g.scope_id for g in held if g.scope_kind == "org" and g.scope_id),
    )


def may_tenant(caller: Caller, permission: Permission) -> bool:
    """Whether ``caller`` has ``permission`` on the whole tenant."""
    if caller.role == "admin":
        return True
    return any(g.scope_kind == "tenant" and _RANK[g.permission] >= _RANK[permission] for g in caller.grants)


def may(caller: Caller, permission: Permission, project: ProjectRef) -> bool:
    """Whether ``caller`` has ``permission`` on ``project``, by the tenant, its org or itself."""
    where = reach(caller, permission)
    if where.everything or project.id in where.project_ids:
        return True
    return project.org_id is not None and project.org_id in where.org_ids


def need(caller: Caller, permission: Permission, project: ProjectRef) -> None:
    """Raise ``PermissionDenied`` unless ``caller`` has ``permission`` on ``project``."""
    if not may(caller, permission, project):
        raise PermissionDenied(f"This needs {permission!r} on project {project.id!r}.", permission=permission)


def need_tenant(caller: Caller, permission: Permission) -> None:
    """Raise ``PermissionDenied`` unless ``caller`` has ``permission`` on the whole tenant."""
    if not may_tenant(caller, permission):
        raise PermissionDenied(f"This needs {permission!r} on the tenant.", permission=permission)

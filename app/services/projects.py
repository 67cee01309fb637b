"""Keeps projects, and finds the one that a caller speaks of."""

from __future__ import annotations

from typing import Any

from app.domain.errors import ProjectNotFound
from app.domain.model import Caller, Permission, ProjectRef
from app.domain.permission import may, need, need_tenant
from app.store import projects
from app.store.engine import Db


def put_project(tx: Db, caller: Caller, project_id: str, columns: dict[str, Any]) -> bool:
    """Make the project, or change the named ``columns`` (``None`` clears one). Says whether it is new.

    :raises PermissionDenied: without admin on the tenant.
    """
    need_tenant(caller, "admin")
    return projects.put(tx, caller.tenant_id, project_id, columns)


def project_for(db: Db, caller: Caller, project_id: str, permission: Permission) -> ProjectRef:
    """The project of that id, on which the caller has ``permission``.

    :raises ProjectNotFound: if there is none, or the caller can't read it.
    :raises PermissionDenied: if the caller can read it and no more.
    """
    return allowed(caller, project_id, projects.ref(db, caller.tenant_id, project_id), permission)


def allowed(caller: Caller, project_id: str, project: ProjectRef | None, permission: Permission) -> ProjectRef:
    """``project``, which was asked for by its id, if the caller has ``permission`` on it; raises as ``project_for``."""
    if project is None or not may(caller, "read", project):
        raise ProjectNotFound.named(project_id)
    need(caller, permission, project)
    return project

"""Corrector groups: a named class of correctors with a weight, perhaps restricted."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from app.domain.model import Caller, PrincipalKind, ProjectRef, ReviewerRole
from app.domain.permission import may, may_tenant

GroupScopeKind = Literal["tenant", "project", "agent"]


@dataclass(frozen=True, slots=True)
class GroupScope:
    """Where a group applies: the whole tenant, a project, or one agent in a project."""

    kind: GroupScopeKind
    project: ProjectRef | None = None
    agent_id: str | None = None


@dataclass(frozen=True, slots=True)
class AssertableBy:
    """Who may record under a restricted group. Every part that is set must hold."""

    min_reviewer_role: ReviewerRole | None = None
    principal_kinds: tuple[PrincipalKind, ...] = ()
    principal_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CorrectorGroup:
    id: str
    name: str
    weight: float
    scope: GroupScope
    created_at: datetime
    updated_at: datetime
    description: str | None = None
    assertable_by: AssertableBy | None = None
    unregistered_at: datetime | None = None


def may_read(caller: Caller, scope: GroupScope) -> bool:
    """Whether ``caller`` sees the groups of ``scope``: everybody in the tenant sees the tenant's."""
    return scope.project is None or may(caller, "read", scope.project)


def may_manage(caller: Caller, scope: GroupScope) -> bool:
    """Whether ``caller`` may change the groups of ``scope``, and sees whom they are restricted to."""
    return may_tenant(caller, "admin") if scope.project is None else may(caller, "admin", scope.project)

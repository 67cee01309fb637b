"""Endpoints that people and programs are told through: who manages one, and which of them a notice goes to."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from app.domain.model import Caller, Principal, ProjectRef
from app.domain.permission import may, may_tenant

EndpointKind = Literal["webhook", "email", "slack"]
ScopeKind = Literal["tenant", "project", "principal"]
EndedReason = Literal["gone", "failing"]

_READ_BY_PEOPLE = ("email", "slack")


@dataclass(frozen=True, slots=True)
class EndpointScope:
    """Whose events an endpoint takes: the tenant's, a project's, or those that a principal owns."""

    kind: ScopeKind
    project: ProjectRef | None = None
    principal: Principal | None = None


@dataclass(frozen=True, slots=True)
class Endpoint:
    """``target`` is as it is shown; ``target_sha256`` tells whole targets apart."""

    id: str
    kind: EndpointKind
    target: str
    target_sha256: bytes
    events: tuple[str, ...]
    scope: EndpointScope
    digest_seconds: int
    made_by: Principal
    created_at: datetime
    updated_at: datetime
    unregistered_at: datetime | None = None
    ended_at: datetime | None = None
    ended_reason: EndedReason | None = None

    @property
    def live(self) -> bool:
        return self.unregistered_at is None and self.ended_at is None

    @property
    def makers(self) -> tuple[Principal, ...]:
        """Who is told when it ends: who made it, and whose it is."""
        whose = (self.scope.principal,) if self.scope.principal else ()
        return tuple(dict.fromkeys((self.made_by, *whose)))


def may_manage(caller: Caller, scope: EndpointScope) -> bool:
    """Whether ``caller`` may see and change the endpoints of ``scope``. A principal manages its own."""
    if scope.project is not None:
        return may(caller, "admin", scope.project)
    return scope.principal == caller.principal or may_tenant(caller, "admin")


def addressees(
    type: str, project_id: str, owners: Iterable[Principal], endpoints: Sequence[Endpoint]
) -> list[Endpoint]:
    """Those of ``endpoints`` that a notice of ``type`` goes to: each owner's own, else once the project's, else the
    tenant's.

    An endpoint counts for its owner only if it takes the type, so that nothing is lost between two endpoints. The
    project's stand in, once, for all owners without one, and for a subject without owners.
    """
    taking = [endpoint for endpoint in endpoints if endpoint.live and type in endpoint.events]
    own = [[e for e in taking if e.scope.principal == owner] for owner in dict.fromkeys(owners)]
    found = [endpoint for each in own for endpoint in each]
    if not own or not all(own):
        project = [e for e in taking if e.scope.project is not None and e.scope.project.id == project_id]
        found += project or [e for e in taking if e.scope.kind == "tenant"]
    return _once(found)


def _once(found: Iterable[Endpoint]) -> list[Endpoint]:
    """Each endpoint once; a mail address or Slack hook once, too: somebody in two roles reads one copy.

    Webhooks of one URL stay apart: each has a secret of its own, by which its receiver knows it.
    """
    kept: dict[object, Endpoint] = {}
    for endpoint in found:
        read = endpoint.kind in _READ_BY_PEOPLE
        kept.setdefault((endpoint.kind, endpoint.target_sha256) if read else endpoint.id, endpoint)
    return list(kept.values())

"""Notification endpoints. What must stay secret comes and goes sealed; nothing here can open it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from app.domain.endpoints import EndedReason, Endpoint, EndpointKind, EndpointScope
from app.domain.model import Principal, ProjectRef
from app.domain.permission import Reach
from app.store.engine import Db, Row

_COLUMNS = """
e.id, e.kind, e.target, e.target_sha256, e.events, e.scope_kind, e.project_id, p.org_id, e.principal_kind,
e.principal_id, e.digest_seconds, e.made_by_kind, e.made_by_id, e.created_at, e.updated_at, e.unregistered_at,
e.ended_at, e.ended_reason
"""
_FROM = "notification_endpoints e LEFT JOIN projects p ON p.tenant_id = e.tenant_id AND p.id = e.project_id"


@dataclass(frozen=True, slots=True)
class SealedTarget:
    """``shown`` is the target as everybody with access sees it; ``sealed`` all of it, where it is a secret."""

    shown: str
    sha256: bytes
    sealed: bytes | None = None


@dataclass(frozen=True, slots=True)
class NewEndpoint:
    id: str
    kind: EndpointKind
    target: SealedTarget
    events: tuple[str, ...]
    scope: EndpointScope
    digest_seconds: int
    made_by: Principal
    secret_sealed: bytes | None = None


_ADD = """
INSERT INTO notification_endpoints (tenant_id, id, kind, target, target_sealed, target_sha256, events, scope_kind,
                                    project_id, principal_kind, principal_id, digest_seconds, secret_sealed,
                                    made_by_kind, made_by_id, created_at, updated_at)
SELECT %(tenant)s, %(id)s, %(kind)s, %(target)s, %(target_sealed)s, %(target_sha256)s, %(events)s, %(scope_kind)s,
       %(project)s, %(principal_kind)s, %(principal_id)s, %(digest_seconds)s, %(secret_sealed)s,
       %(made_by_kind)s, %(made_by_id)s, t.now, t.now
  FROM (SELECT clock_timestamp() AS now) t
"""


def add(db: Db, tenant_id: str, new: NewEndpoint) -> None:
    """Store a new endpoint."""
    principal = new.scope.principal
    values = {
        "tenant": tenant_id,
        "id": new.id,
        "kind": new.kind,
        "events": list(new.events),
        "scope_kind": new.scope.kind,
        "project": new.scope.project.id if new.scope.project else None,
        "principal_kind": principal.kind if principal else None,
        "principal_id": principal.id if principal else None,
        "digest_seconds": new.digest_seconds,
        "secret_sealed": new.secret_sealed,
        "made_by_kind": new.made_by.kind,
        "made_by_id": new.made_by.id,
    }
    db.run(_ADD, values | _target_values(new.target))


def find(db: Db, tenant_id: str, endpoint_id: str, *, lock: bool = False) -> Endpoint | None:
    """The endpoint, live or not. ``lock`` holds it for the transaction."""
    row = db.row(
        f"SELECT {_COLUMNS} FROM {_FROM} WHERE e.tenant_id = %s AND e.id = %s"
        + (" FOR NO KEY UPDATE OF e" if lock else ""),
        (tenant_id, endpoint_id),
    )
    return None if row is None else _endpoint(row)


_NEWEST = f"""
SELECT {_COLUMNS} FROM {_FROM}
 WHERE e.tenant_id = %(tenant)s AND e.unregistered_at IS NULL
   AND (%(everything)s OR e.project_id = ANY (%(projects)s::text[]) OR p.org_id = ANY (%(orgs)s::text[])
        OR (e.principal_kind = %(kind)s AND e.principal_id = %(principal)s))
   AND (%(at)s::timestamptz IS NULL OR (e.created_at, e.id) < (%(at)s, %(last)s))
 ORDER BY e.created_at DESC, e.id DESC LIMIT %(count)s
"""


def newest(
    db: Db,
    tenant_id: str,
    managed: Reach,
    principal: Principal,
    count: int,
    position: tuple[datetime, str] | None,
) -> list[Endpoint]:
    """Up to ``count`` endpoints after ``position``, newest first: ``principal``'s own and those in ``managed``."""
    at, last = position or (None, None)
    values = {
        "tenant": tenant_id,
        "everything": managed.everything,
        "projects": list(managed.project_ids),
        "orgs": list(managed.org_ids),
        "kind": principal.kind,
        "principal": principal.id,
        "at": at,
        "last": last,
        "count": count,
    }
    return [_endpoint(row) for row in db.rows(_NEWEST, values)]


_CONCERNED = f"""
SELECT {_COLUMNS} FROM {_FROM}
 WHERE e.tenant_id = %(tenant)s AND e.unregistered_at IS NULL AND e.ended_at IS NULL
   AND (e.scope_kind = 'tenant' OR e.project_id = ANY (%(projects)s::text[])
        OR (e.principal_kind, e.principal_id) IN (
            SELECT * FROM unnest(%(owner_kinds)s::text[], %(owner_ids)s::text[])))
 ORDER BY e.created_at, e.id
"""


def concerned(db: Db, tenant_id: str, projects: Iterable[str], owners: Iterable[Principal]) -> list[Endpoint]:
    """The live endpoints that news of ``projects`` with ``owners`` can go to, oldest first."""
    owners = list(owners)
    values = {
        "tenant": tenant_id,
        "projects": list(projects),
        "owner_kinds": [owner.kind for owner in owners],
        "owner_ids": [owner.id for owner in owners],
    }
    return [_endpoint(row) for row in db.rows(_CONCERNED, values)]


def change(
    db: Db,
    tenant_id: str,
    endpoint_id: str,
    *,
    target: SealedTarget | None = None,
    events: tuple[str, ...] | None = None,
    digest_seconds: int | None = None,
) -> None:
    """Write what is given of an endpoint, and leave the rest."""
    values: dict[str, Any] = {}
    if target is not None:
        values |= _target_values(target)
    if events is not None:
        values["events"] = list(events)
    if digest_seconds is not None:
        values["digest_seconds"] = digest_seconds
    _set(db, tenant_id, endpoint_id, values)


def rotate(db: Db, tenant_id: str, endpoint_id: str, secret_sealed: bytes, overlap_hours: int) -> None:
    """Give the endpoint a new secret; the one before signs beside it for ``overlap_hours``."""
    db.run(
        "UPDATE notification_endpoints SET former_secret_sealed = secret_sealed, secret_sealed = %(sealed)s,"
        " former_secret_until = clock_timestamp() + make_interval(hours => %(hours)s), updated_at = clock_timestamp()"
        " WHERE tenant_id = %(tenant)s AND id = %(id)s",
        {"sealed": secret_sealed, "hours": overlap_hours, "tenant": tenant_id, "id": endpoint_id},
    )


def unregister(db: Db, tenant_id: str, endpoint_id: str) -> None:
    """Take the endpoint out of use, once. Its secrets go."""
    db.run(
        "UPDATE notification_endpoints SET unregistered_at = clock_timestamp(), updated_at = clock_timestamp(),"
        " secret_sealed = NULL, former_secret_sealed = NULL, target_sealed = NULL"
        " WHERE tenant_id = %s AND id = %s AND unregistered_at IS NULL",
        (tenant_id, endpoint_id),
    )


def end(db: Db, tenant_id: str, endpoint_id: str, reason: EndedReason) -> bool:
    """Note that the endpoint's receiver takes nothing any more; false if it had ended before."""
    count = db.run(
        "UPDATE notification_endpoints SET ended_at = clock_timestamp(), ended_reason = %s,"
        " updated_at = clock_timestamp()"
        " WHERE tenant_id = %s AND id = %s AND ended_at IS NULL AND unregistered_at IS NULL",
        (reason, tenant_id, endpoint_id),
    )
    return count == 1


def _set(db: Db, tenant_id: str, endpoint_id: str, values: Mapping[str, Any]) -> None:
    columns = "".join(f"{name} = %({name})s, " for name in values)
    db.run(
        f"UPDATE notification_endpoints SET {columns}updated_at = clock_timestamp()"
        " WHERE tenant_id = %(tenant)s AND id = %(id)s",
        {**values, "tenant": tenant_id, "id": endpoint_id},
    )


def _target_values(target: SealedTarget) -> dict[str, Any]:
    return {"target": target.shown, "target_sealed": target.sealed, "target_sha256": target.sha256}


def _endpoint(row: Row) -> Endpoint:
    endpoint_id, kind, target, sha256, events, scope_kind, project_id, org_id, whose_kind, whose_id, *rest = row
    digest_seconds, maker_kind, maker_id, created, updated, unregistered, ended, reason = rest
    scope = EndpointScope(
        scope_kind,
        ProjectRef(project_id, org_id) if project_id else None,
        Principal(whose_kind, whose_id) if whose_kind else None,
    )
    return Endpoint(
        endpoint_id, kind, target, bytes(sha256), tuple(events), scope, digest_seconds,
        Principal(maker_kind, maker_id), created, updated, unregistered, ended, reason,
    )  # fmt: skip

"""Tokens and tenants. Of a secret only its SHA-256 is stored."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from app.domain import times
from app.domain.model import Caller, Grant, Principal
from app.store.engine import Db


@dataclass(frozen=True, slots=True)
class KnownToken:
    """A token found by its secret, good or not."""

    caller: Caller
    expired: bool
    revoked: bool


def digest(secret: str) -> bytes:
    """What is stored of a secret."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()


_BY_SECRET = """
SELECT tenant_id, id, principal_kind, principal_id, role, grants, reviewer_role,
       expires_at <= clock_timestamp(), revoked_at IS NOT NULL
  FROM tokens WHERE sha256 = %s
"""


def by_secret(db: Db, secret: str) -> KnownToken | None:
    """The token with that secret, in whichever tenant it is."""
    row = db.row(_BY_SECRET, (digest(secret),))
    if row is None:
        return None
    tenant_id, token_id, kind, principal_id, role, grants, reviewer_role, expired, revoked = row
    caller = Caller(tenant_id, Principal(kind, principal_id), token_id, role, grants_of(grants), reviewer_role)
    return KnownToken(caller, bool(expired), revoked)


def grants_of(text: str) -> tuple[Grant, ...]:
    """Grants from the JSON that is stored of them."""
    if text == "[]":
        return ()
    return tuple(Grant(g["scopeKind"], g["permission"], g.get("scopeId")) for g in json.loads(text))


def grant_json(grants: tuple[Grant, ...]) -> list[dict[str, str]]:
    """Grants as they are stored and shown."""
    return [
        {
            "scopeKind": g.scope_kind,
            **({"scopeId": g.scope_id} if g.scope_id else {}),
            "permission": g.permission,
        }
        for g in grants
    ]


def ensure_tenant(db: Db, tenant_id: str) -> None:
    """Make the tenant unless it is there."""
    db.run(
        "INSERT INTO tenants (id, created_at) VALUES (%s, clock_timestamp()) ON CONFLICT DO NOTHING",
        (tenant_id,),
    )


_ADD = """
INSERT INTO tokens (tenant_id, id, sha256, name, principal_kind, principal_id, role, grants, reviewer_role,
                    created_at, created_by_kind, created_by_id, expires_at)
VALUES (%(tenant_id)s, %(id)s, %(sha256)s, %(name)s, %(principal_kind)s, %(principal_id)s, %(role)s, %(grants)s,
        %(reviewer_role)s, date_trunc('milliseconds', clock_timestamp()), %(created_by_kind)s, %(created_by_id)s,
        %(expires_at)s)
"""


def add(
    db: Db,
    caller: Caller,
    secret: str,
    name: str,
    *,
    made_by: Principal | None = None,
    expires_at: datetime | None = None,
) -> None:
    """Store a token that speaks for ``caller``."""
    values: dict[str, Any] = {
        "tenant_id": caller.tenant_id,
        "id": caller.token_id,
        "sha256": digest(secret),
        "name": name,
        "principal_kind": caller.principal.kind,
        "principal_id": caller.principal.id,
        "role": caller.role,
        "grants": json.dumps(grant_json(caller.grants)),
        "reviewer_role": caller.reviewer_role,
        "created_by_kind": made_by.kind if made_by else None,
        "created_by_id": made_by.id if made_by else None,
        "expires_at": expires_at,
    }
    db.run(_ADD, values)


_COLUMNS = "id, name, principal_kind, principal_id, role, grants, reviewer_role, created_at, expires_at, revoked_at"


def show(db: Db, tenant_id: str, token_id: str) -> dict[str, Any] | None:
    """The token as the wire shows it, without its secret."""
    row = db.row(f"SELECT {_COLUMNS} FROM tokens WHERE tenant_id = %s AND id = %s", (tenant_id, token_id))
    return None if row is None else _shown(row)


def newest(
    db: Db, tenant_id: str, count: int, position: tuple[datetime, str] | None
) -> list[tuple[tuple[datetime, str], dict[str, Any]]]:
    """Up to ``count`` tokens after ``position``, newest first, each with its own position."""
    at, last = position or (None, None)
    rows = db.rows(
        f"SELECT {_COLUMNS} FROM tokens WHERE tenant_id = %(tenant)s"
        " AND (%(at)s::timestamptz IS NULL OR (created_at, id) < (%(at)s, %(last)s))"
        " ORDER BY created_at DESC, id DESC LIMIT %(count)s",
        {"tenant": tenant_id, "at": at, "last": last, "count": count},
    )
    return [((row[7], row[0]), _shown(row)) for row in rows]


def make_none_beside(db: Db) -> None:
    """Nobody else makes a token, in any tenant, until this transaction ends."""
    db.run("LOCK TABLE tokens IN SHARE ROW EXCLUSIVE MODE")


def revoke(db: Db, tenant_id: str, token_id: str) -> bool:
    """Mark the token revoked; false if there is none."""
    count = db.run(
        "UPDATE tokens SET revoked_at = coalesce(revoked_at, clock_timestamp()) WHERE tenant_id = %s AND id = %s",
        (tenant_id, token_id),
    )
    return count == 1


def _shown(row: tuple[Any, ...]) -> dict[str, Any]:
    token_id, name, kind, principal_id, role, grants, reviewer_role, created, expires, revoked = row
    shown = {
        "id": token_id,
        "name": name,
        "principal": {"kind": kind, "id": principal_id},
        "role": role,
        "grants": json.loads(grants),
        "reviewerRole": reviewer_role,
        "createdAt": times.wire(created),
        "expiresAt": times.wire(expires) if expires else None,
        "revokedAt": times.wire(revoked) if revoked else None,
    }
    return {name: value for name, value in shown.items() if value is not None}

"""Makes and ends tokens."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from app.domain.errors import TokenNotFound
from app.domain.model import Caller, Grant, Principal, PrincipalKind, ReviewerRole
from app.store import tokens
from app.store.engine import Db
from app.store.ids import new_id, new_secret


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a new token shall be. Without ``principal_kind`` it speaks for itself, a service."""

    name: str
    role: Literal["admin", "member"]
    principal_kind: PrincipalKind = "service"
    principal_id: str | None = None
    grants: tuple[Grant, ...] = ()
    reviewer_role: ReviewerRole | None = None
    expires_at: datetime | None = None


def issue_token(
    tx: Db, tenant_id: str, wanted: Wanted, made_by: Principal | None = None, secret: str | None = None
) -> tuple[Caller, str]:
    """Store a new token in ``tenant_id``, which must exist; its secret is in the answer alone."""
    token_id = new_id()
    principal = Principal(wanted.principal_kind, wanted.principal_id or token_id)
    caller = Caller(tenant_id, principal, token_id, wanted.role, wanted.grants, wanted.reviewer_role)
    secret = secret or new_secret()
    tokens.add(tx, caller, secret, wanted.name, made_by=made_by, expires_at=wanted.expires_at)
    return caller, secret


def ensure_bootstrap_token(tx: Db, secret: str) -> None:
    """Make sure that tenant ``default`` has an admin token with ``secret``, for user ``admin``."""
    tokens.ensure_tenant(tx, "default")
    tx.run("LOCK TABLE tokens IN SHARE ROW EXCLUSIVE MODE")
    if tokens.by_secret(tx, secret) is None:
        issue_token(tx, "default", Wanted("bootstrap", "admin", "user", "admin"), secret=secret)


def revoke_token(tx: Db, tenant_id: str, token_id: str) -> None:
    """End the token; doing it twice changes nothing.

    :raises TokenNotFound: if the tenant has none of that id.
    """
    if not tokens.revoke(tx, tenant_id, token_id):
        raise TokenNotFound("There is no such token.")

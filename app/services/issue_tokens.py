"""Makes and ends tokens."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from app.domain.errors import RunErased, RunNotFound, TokenNotFound
from app.domain.model import Caller, Grant, Participant, Principal, PrincipalKind, ReviewerRole
from app.domain.permission import need
from app.store import participants, tokens
from app.store.engine import Db
from app.store.ids import PARTICIPANTS, new_id, new_secret


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


def issue_participant_token(tx: Db, maker: Caller, participant: Participant, seconds: int) -> tuple[str, datetime]:
    """Store a token with which ``participant`` may correct their run for ``seconds``; its secret, and when it ends.

    The run needn't be finished yet: a page may ask for its token when it shows the run's beginning.

    :raises RunNotFound, PermissionDenied, RunErased: as recording on that run would.
    """
    found = participants.run_asked_about(tx, maker.tenant_id, participant.run_id)
    if found is None:
        raise RunNotFound("There is no such run.")
    project, erased = found
    need(maker, "write", project)
    if erased:
        raise RunErased("The run's content was erased; there is nothing to correct.")
    secret = new_secret(PARTICIPANTS)
    return secret, participants.add(tx, maker, secret, participant, seconds)


def ensure_bootstrap_token(tx: Db, secret: str) -> None:
    """Make sure that tenant ``default`` has an admin token with ``secret``, for user ``admin``."""
    tokens.ensure_tenant(tx, "default")
    tokens.make_none_beside(tx)
    if tokens.by_secret(tx, secret) is None:
        issue_token(tx, "default", Wanted("bootstrap", "admin", "user", "admin"), secret=secret)


def revoke_token(tx: Db, tenant_id: str, token_id: str) -> None:
    """End the token; doing it twice changes nothing.

    :raises TokenNotFound: if the tenant has none of that id.
    """
    if not tokens.revoke(tx, tenant_id, token_id):
        raise TokenNotFound("There is no such token.")

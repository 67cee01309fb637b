"""Who calls: from the Authorization header to a ``Caller``."""

from __future__ import annotations

from app.domain.errors import NotAuthenticated, TokenExpired, TokenRevoked
from app.domain.model import Caller
from app.store import participants, tokens
from app.store.engine import Db
from app.store.ids import PARTICIPANTS
from app.store.tokens import KnownToken


def bearer(header: str | None) -> str:
    """The secret in ``Authorization: Bearer <secret>``, the scheme in any case.

    :raises NotAuthenticated: if there is none.
    """
    scheme, _, secret = (header or "").strip().partition(" ")
    if scheme.lower() != "bearer" or not secret.strip():
        raise NotAuthenticated("Send a token: Authorization: Bearer <token>.")
    return secret.strip()


def authenticate(db: Db, header: str | None) -> Caller:
    """The caller that the header's token speaks for.

    :raises NotAuthenticated: for a token that isn't known; ``TokenRevoked`` or ``TokenExpired`` for one that was good.
    """
    known = _known(db, bearer(header))
    if known is None:
        raise NotAuthenticated("This token isn't known.")
    if known.revoked:
        raise TokenRevoked("This token was revoked.")
    if known.expired:
        raise TokenExpired("This token has expired.")
    return known.caller


def _known(db: Db, secret: str) -> KnownToken | None:
    """One look-up; two only where an operator's own bootstrap token looks like a participant's, or nothing is found."""
    found = participants.by_secret(db, secret) if secret.startswith(PARTICIPANTS) else None
    return found or tokens.by_secret(db, secret)

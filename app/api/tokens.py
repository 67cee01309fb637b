"""``/v1/tokens`` and ``/v1/me``."""

from __future__ import annotations

from typing import Any

import orjson

from app.api.routes import Answer, Call, Routes, after, answer, page
from app.api.schemas.base import PageQuery
from app.api.schemas.tokens import Me, TokenIssued, TokenPage, TokenShape, TokenWanted
from app.domain.errors import PermissionDenied, TokenNotFound
from app.domain.model import Grant
from app.domain.permission import need_tenant
from app.services.issue_tokens import Wanted, issue_token, revoke_token
from app.store import tokens
from app.store.tokens import grant_json

routes = Routes("tokens")


@routes.add("GET", "/v1/me", answers={200: Me})
def me(call: Call) -> Answer:
    """Who the token speaks for, and what it may do."""
    caller = call.caller
    shown: dict[str, Any] = {
        "tenantId": caller.tenant_id,
        "principal": {"kind": caller.principal.kind, "id": caller.principal.id},
        "role": caller.role,
        "grants": grant_json(caller.grants),
    }
    return answer(shown | ({"reviewerRole": caller.reviewer_role} if caller.reviewer_role else {}))


@routes.add("POST", "/v1/tokens", body=TokenWanted, answers={201: TokenIssued}, errors=(PermissionDenied,))
def create_token(call: Call) -> Answer:
    """Make a token.

    Needs admin on the tenant. The secret is in this answer alone.
    """
    need_tenant(call.caller, "admin")
    principal = call.body.get("principal", {})
    wanted = Wanted(
        call.body["name"],
        call.body["role"],
        principal.get("kind", "service"),
        principal.get("id"),
        tuple(Grant(g["scope_kind"], g["permission"], g.get("scope_id")) for g in call.body.get("grants", [])),
        call.body.get("reviewer_role"),
        call.body.get("expires_at"),
    )
    made, secret = issue_token(call.tx, call.caller.tenant_id, wanted, call.caller.principal)
    shown = tokens.show(call.db, made.tenant_id, made.token_id)
    return answer({**(shown or {}), "token": secret}, 201, secret=True)


@routes.add("GET", "/v1/tokens", query=PageQuery, answers={200: TokenPage}, errors=(PermissionDenied,))
def list_tokens(call: Call) -> Answer:
    """List tokens, newest first.

    Needs admin on the tenant. Secrets are not shown.
    """
    need_tenant(call.caller, "admin")
    limit = call.query["limit"]
    rows = tokens.newest(call.db, call.caller.tenant_id, limit + 1, after(call))
    return page(call, rows, limit, lambda row: row[0], lambda row: orjson.dumps(row[1]).decode())


@routes.add(
    "GET",
    "/v1/tokens/{tokenId}",
    answers={200: TokenShape},
    errors=(PermissionDenied,),
    missing=TokenNotFound,
)
def get_token(call: Call) -> Answer:
    """Fetch a token. Needs admin on the tenant."""
    need_tenant(call.caller, "admin")
    shown = tokens.show(call.db, call.caller.tenant_id, call.path["tokenId"])
    if shown is None:
        raise TokenNotFound("There is no such token.")
    return answer(shown)


@routes.add(
    "POST",
    "/v1/tokens/{tokenId}/revoke",
    answers={200: TokenShape},
    errors=(PermissionDenied,),
    missing=TokenNotFound,
)
def revoke(call: Call) -> Answer:
    """End a token, from the next request on. Needs admin on the tenant."""
    need_tenant(call.caller, "admin")
    revoke_token(call.tx, call.caller.tenant_id, call.path["tokenId"])
    return answer(tokens.show(call.db, call.caller.tenant_id, call.path["tokenId"]))

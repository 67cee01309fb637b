"""Which corrections a list, its counts and its exports are about."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, get_args

from app.domain.errors import BadInput, ScopeInvalid
from app.domain.model import Principal, Status

NOT_FIXED: tuple[Status, ...] = ("open", "being-fixed", "with-owner")
"""What ``status=not-fixed`` is short for."""

NOT_REMOVED: tuple[Status, ...] = tuple(status for status in get_args(Status) if status != "removed")
"""The statuses of a list that names none."""


@dataclass(frozen=True, slots=True)
class Filters:
    """What is asked for; ``None`` and ``()`` narrow nothing. ``statuses`` is never empty. ``sorted_to`` may hold
    ``none``, for unsorted ones. Of ``project_id`` and ``org_id`` at most one is set.
    """

    statuses: tuple[str, ...] = NOT_REMOVED
    sorted_to: tuple[str, ...] = ()
    run_id: str | None = None
    agent_id: str | None = None
    agent_version: str | None = None
    flow_id: str | None = None
    made_from: Literal["experts", "end-users"] | None = None
    made_by: Principal | None = None
    since: datetime | None = None
    until: datetime | None = None
    corrector_group_id: str | None = None
    participant_id: str | None = None
    project_id: str | None = None
    org_id: str | None = None


def filters_of(query: Mapping[str, Any], caller: Principal) -> Filters:
    """The filters that a well-shaped ``query`` asks for.

    :raises BadInput: for a version without its agent; ``ScopeInvalid`` for a scope that is none.
    """
    if "agent_version" in query and "agent_id" not in query:
        raise BadInput.at("/query/agentVersion", "needs agentId")
    project_id, org_id = _scope(query.get("scope_kind"), query.get("scope_id"))
    made_from = query.get("from_")
    return Filters(
        _statuses(query.get("status", ())),
        tuple(query.get("sorted_to", ())),
        query.get("run_id"),
        query.get("agent_id"),
        query.get("agent_version"),
        query.get("flow_id"),
        None if made_from == "all" else made_from,
        caller if query.get("made_by") == "me" else None,
        query.get("since"),
        query.get("until"),
        query.get("corrector_group_id"),
        query.get("participant_id"),
        project_id,
        org_id,
    )


def _statuses(asked: tuple[str, ...]) -> tuple[str, ...]:
    named = [status for word in asked for status in (NOT_FIXED if word == "not-fixed" else (word,))]
    return tuple(dict.fromkeys(named)) or NOT_REMOVED


def _scope(kind: str | None, scope_id: str | None) -> tuple[str | None, str | None]:
    if kind in ("org", "project"):
        if scope_id is None:
            raise ScopeInvalid(f"scopeKind={kind} needs scopeId.")
        return (scope_id, None) if kind == "project" else (None, scope_id)
    if scope_id is not None:
        raise ScopeInvalid("scopeId goes only with scopeKind=org or scopeKind=project.")
    return None, None

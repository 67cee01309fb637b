"""The words of the product as frozen values: see the glossary in README.md."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

PrincipalKind = Literal["user", "service"]
SubjectKind = Literal["agent", "flow"]
Verdict = Literal["right", "wrong"]
Status = Literal["open", "being-fixed", "with-owner", "fixed", "wont-fix", "removed"]
Queue = Literal["improve", "developer", "owner"]
Permission = Literal["read", "write", "admin"]
ScopeKind = Literal["tenant", "org", "project"]
ReviewerRole = Literal["standard", "senior", "admin"]
How = Literal["pin", "went-back", "unpin", "latest"]
RunStatus = Literal["running", "suspended", "completed", "failed", "cancelled"]

ENDED: frozenset[str] = frozenset({"completed", "failed", "cancelled"})
"""Statuses after which a run's content no longer changes."""

WAITING: frozenset[str] = frozenset({"open", "with-owner"})
"""Statuses in which a sorted correction waits in a queue."""


@dataclass(frozen=True, slots=True)
class Principal:
    """Who calls. A service token's id is the token's id."""

    kind: PrincipalKind
    id: str


@dataclass(frozen=True, slots=True)
class Actor:
    """Who did something to a correction: a principal, or ``rule`` / ``fix-job`` without an id."""

    kind: Literal["user", "service", "rule", "fix-job"]
    id: str | None = None

    @classmethod
    def of(cls, principal: Principal) -> Actor:
        return cls(principal.kind, principal.id)


RULE = Actor("rule")
FIX_JOB = Actor("fix-job")


@dataclass(frozen=True, slots=True)
class Subject:
    """What a run ran. ``version`` is ``None`` where only the agent or flow itself is meant."""

    kind: SubjectKind
    id: str
    version: str | None = None


@dataclass(frozen=True, slots=True)
class Grant:
    scope_kind: ScopeKind
    permission: Permission
    scope_id: str | None = None


@dataclass(frozen=True, slots=True)
class ProjectRef:
    """A project as permission needs it."""

    id: str
    org_id: str | None = None


@dataclass(frozen=True, slots=True)
class Participant:
    """An end user in a browser, and the one run that they are asked about."""

    run_id: str
    participant_id: str


@dataclass(frozen=True, slots=True)
class Caller:
    """Whom a good token speaks for, and what they may do.

    With a ``participant`` it is their token: all that it may do is record and read that participant's correction of
    that run, within what its maker may do.
    """

    tenant_id: str
    principal: Principal
    token_id: str
    role: Literal["admin", "member"]
    grants: tuple[Grant, ...] = ()
    reviewer_role: ReviewerRole | None = None
    participant: Participant | None = None


@dataclass(frozen=True, slots=True)
class Sorted:
    by: Actor
    at: datetime
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class FixedIn:
    how: Literal["pin", "latest", "recorded-right"]
    at: datetime
    version: str | None = None
    by: Principal | None = None


@dataclass(frozen=True, slots=True)
class ReopenedIn:
    version: str
    how: How
    at: datetime
    by: Principal | None = None


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a correction is in being fixed: all that ``sorting``, ``changing`` and ``lifecycle`` may move."""

    status: Status
    sorted_to: Queue | None = None
    sorted: Sorted | None = None
    fixed_in: FixedIn | None = None
    reopened_in: ReopenedIn | None = None


@dataclass(frozen=True, slots=True)
class RunContent:
    """All that a PUT says of a run. Payloads are JSON text as it came; ``None`` where there is none.

    ``content_sha256`` is of each field as sent: equal for the same content, white space between tokens aside.
    """

    project_id: str
    subject: Subject
    status: RunStatus
    content_sha256: bytes
    input: str | None = None
    output: str | None = None
    conversation_id: str | None = None
    parent_run_id: str | None = None
    node_id: str | None = None
    scope: str | None = None
    replay_of: str | None = None
    segments: str | None = None
    messages: str | None = None
    retrieved: str | None = None
    recalled: str | None = None
    session_approval: str | None = None
    calls: str | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class KnownRun:
    """What there is under a run's id already, as far as the next PUT asks."""

    project_id: str
    status: RunStatus
    content_sha256: bytes
    erased: bool = False

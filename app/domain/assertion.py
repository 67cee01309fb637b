"""Whether a correction may be recorded under a corrector group: where the group applies, and who may assert it."""

from __future__ import annotations

from dataclasses import dataclass

from app.domain.errors import CorrectorGroupNotAllowed, CorrectorGroupNotApplicable
from app.domain.groups import AssertableBy, GroupScopeKind
from app.domain.model import Caller, Subject

_RANK = {"standard": 1, "senior": 2, "admin": 3}


@dataclass(frozen=True, slots=True)
class NamedGroup:
    """The corrector group that a recording names, as far as it matters there."""

    scope_kind: GroupScopeKind
    project_id: str | None
    agent_id: str | None
    assertable_by: AssertableBy | None

    @property
    def restricted(self) -> bool:
        return self.assertable_by is not None


def check(group: NamedGroup | None, project_id: str, subject: Subject, caller: Caller) -> None:
    """``group`` must apply to runs of ``subject`` in the project, and ``caller`` be one who may assert it.

    :raises CorrectorGroupNotApplicable: also when there is none, or it is retired (``None``).
    :raises CorrectorGroupNotAllowed: if a part of its ``assertableBy`` doesn't hold; for a participant, always: an end
        user is no expert, and weighs as much as every other.
    """
    if caller.participant is not None:
        raise CorrectorGroupNotAllowed("A participant's token asserts no corrector group.")
    if group is None or not _applies(group, project_id, subject):
        raise CorrectorGroupNotApplicable("The corrector group doesn't exist or doesn't apply to this run.")
    if group.assertable_by is not None and not _may_assert(group.assertable_by, caller):
        raise CorrectorGroupNotAllowed("The corrector group is restricted, and you are not among those it names.")


def _applies(group: NamedGroup, project_id: str, subject: Subject) -> bool:
    if group.scope_kind == "tenant":
        return True
    if group.project_id != project_id:
        return False
    return group.scope_kind == "project" or (subject.kind == "agent" and subject.id == group.agent_id)


def _may_assert(rule: AssertableBy, caller: Caller) -> bool:
    lowest = rule.min_reviewer_role
    return (
        (lowest is None or _RANK.get(caller.reviewer_role or "", 0) >= _RANK[lowest])
        and (not rule.principal_kinds or caller.principal.kind in rule.principal_kinds)
        and (not rule.principal_ids or caller.principal.id in rule.principal_ids)
    )

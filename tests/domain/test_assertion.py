from __future__ import annotations

from typing import Any

import pytest

from app.domain.assertion import NamedGroup, check
from app.domain.errors import CorrectorGroupNotAllowed, CorrectorGroupNotApplicable
from app.domain.groups import AssertableBy
from app.domain.model import Caller, Principal, Subject

AGENT = Subject("agent", "a", "1")
ANN = Caller("t", Principal("user", "ann"), "token", "member", (), "senior")


def group(kind: Any = "tenant", project: str | None = None, agent: str | None = None, **rule: Any) -> NamedGroup:
    return NamedGroup(kind, project, agent, AssertableBy(**rule) if rule else None)


@pytest.mark.parametrize(
    ("named", "subject"),
    [
        (group(), AGENT),
        (group(), Subject("flow", "f", "1")),
        (group("project", "p"), AGENT),
        (group("project", "p"), Subject("flow", "f", "1")),
        (group("agent", "p", "a"), AGENT),
    ],
)
def test_a_group_applies_within_its_scope(named: NamedGroup, subject: Subject) -> None:
    check(named, "p", subject, ANN)


@pytest.mark.parametrize(
    ("named", "subject"),
    [
        (None, AGENT),
        (group("project", "q"), AGENT),
        (group("agent", "q", "a"), AGENT),
        (group("agent", "p", "b"), AGENT),
        (group("agent", "p", "a"), Subject("flow", "a", "1")),
        (group("project", "q", min_reviewer_role="admin"), AGENT),
    ],
)
def test_a_group_does_not_apply_elsewhere(named: NamedGroup | None, subject: Subject) -> None:
    with pytest.raises(CorrectorGroupNotApplicable):
        check(named, "p", subject, ANN)


@pytest.mark.parametrize(
    "rule",
    [
        {"min_reviewer_role": "standard"},
        {"min_reviewer_role": "senior"},
        {"principal_kinds": ("user",)},
        {"principal_ids": ("bob", "ann")},
        {"min_reviewer_role": "senior", "principal_kinds": ("user", "service"), "principal_ids": ("ann",)},
    ],
)
def test_a_caller_for_whom_every_part_holds_may_assert(rule: dict[str, Any]) -> None:
    assert group(**rule).restricted
    check(group(**rule), "p", AGENT, ANN)


@pytest.mark.parametrize(
    "rule",
    [
        {"min_reviewer_role": "admin"},
        {"principal_kinds": ("service",)},
        {"principal_ids": ("bob",)},
        {"min_reviewer_role": "senior", "principal_kinds": ("service",)},
        {"principal_kinds": ("user",), "principal_ids": ("bob",)},
    ],
)
def test_one_part_that_does_not_hold_is_enough(rule: dict[str, Any]) -> None:
    with pytest.raises(CorrectorGroupNotAllowed):
        check(group(**rule), "p", AGENT, ANN)


def test_no_reviewer_role_is_below_every_one() -> None:
    plain = Caller("t", Principal("user", "ann"), "token", "admin")
    with pytest.raises(CorrectorGroupNotAllowed):
        check(group(min_reviewer_role="standard"), "p", AGENT, plain)

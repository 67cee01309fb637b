"""Every row of the table, and the stamps that each leaves."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from app.domain.lifecycle import Corrected, Occasion, Running, decide, fold
from app.domain.model import RULE, Actor, FixedIn, Principal, ReopenedIn, Sorted, Standing

T0 = datetime(2026, 5, 1, 12, tzinfo=UTC)
T1 = T0 + timedelta(hours=1)
ANN = Principal("user", "ann")
OWN = Corrected("1.0.0", end_user=False)
FIXED = FixedIn("pin", T0, "1.5.0", ANN)
REOPENED = ReopenedIn("1.6.0", "latest", T0)
UNFIXED = ["open", "being-fixed", "with-owner"]


def occasion(version: str = "2.0.0", how: Any = "latest", **more: Any) -> Occasion:
    return Occasion(T1, Running(version, how, None if how == "latest" else ANN), **more)


def standing(status: Any, **more: Any) -> Standing:
    queue = "owner" if status == "with-owner" else "improve"
    return Standing(status, **({"sorted_to": queue, "sorted": Sorted(RULE, T0)} | more))


@pytest.mark.parametrize("status", UNFIXED)
def test_right_elsewhere_fixes(status: str) -> None:
    before = standing(status)
    after = replace(before, status="fixed", fixed_in=FixedIn("latest", T1, "2.0.0"))
    assert decide(OWN, before, occasion(verdict="right")) == after


@pytest.mark.parametrize("status", UNFIXED)
def test_right_in_its_own_version_stays(status: str) -> None:
    assert decide(OWN, standing(status), occasion("1.0.0", verdict="right")) is None
    assert decide(OWN, standing(status), occasion("1.0.0", verdict="right", resolved=True)) is None


@pytest.mark.parametrize("status", UNFIXED)
@pytest.mark.parametrize("version", ["1.0.0", "2.0.0"])
def test_right_anywhere_fixes_what_was_reopened(status: str, version: str) -> None:
    before = standing(status, fixed_in=FIXED, reopened_in=REOPENED)
    after = replace(before, status="fixed", fixed_in=FixedIn("latest", T1, version), reopened_in=None)
    assert decide(OWN, before, occasion(version, verdict="right")) == after


@pytest.mark.parametrize(("queue", "status"), [("owner", "with-owner"), ("improve", "open"), ("developer", "open")])
@pytest.mark.parametrize("fixed_in", [FIXED, FixedIn("recorded-right", T0)])
@pytest.mark.parametrize("version", ["1.0.0", "2.0.0"])
def test_wrong_reopens_what_was_fixed(queue: str, status: str, fixed_in: FixedIn, version: str) -> None:
    before = standing("fixed", sorted_to=queue, fixed_in=fixed_in)
    after = replace(before, status=status, reopened_in=ReopenedIn(version, "latest", T1))
    assert decide(OWN, before, occasion(version, verdict="wrong")) == after


def test_reopening_sorts_what_nobody_had_sorted() -> None:
    before = Standing("fixed", fixed_in=FixedIn("recorded-right", T0))
    after = decide(OWN, before, occasion(verdict="wrong"))
    assert after is not None
    assert (after.status, after.sorted_to, after.sorted) == ("open", "improve", Sorted(RULE, T1))


def test_reopening_leaves_an_end_users_unsorted() -> None:
    before = Standing("fixed", fixed_in=FIXED)
    after = decide(Corrected("1.0.0", end_user=True), before, occasion(verdict="wrong"))
    assert after == Standing("open", fixed_in=FIXED, reopened_in=ReopenedIn("2.0.0", "latest", T1))


@pytest.mark.parametrize("verdict", ["right", None])
@pytest.mark.parametrize("resolved", [True, False])
def test_fixed_stays_as_it_is_unless_wrong(verdict: Any, resolved: bool) -> None:
    assert decide(OWN, standing("fixed", fixed_in=FIXED), occasion(verdict=verdict, resolved=resolved)) is None


@pytest.mark.parametrize("status", UNFIXED)
@pytest.mark.parametrize("version", ["1.0.0", "2.0.0"])
@pytest.mark.parametrize("reopened_in", [None, REOPENED])
def test_resolves_fixes_what_has_no_verdict(status: str, version: str, reopened_in: ReopenedIn | None) -> None:
    before = standing(status, reopened_in=reopened_in)
    after = replace(before, status="fixed", fixed_in=FixedIn("latest", T1, version), reopened_in=None)
    assert decide(OWN, before, occasion(version, resolved=True)) == after
    assert decide(OWN, before, occasion(version)) is None


@pytest.mark.parametrize("status", UNFIXED)
@pytest.mark.parametrize("resolved", [True, False])
@pytest.mark.parametrize("reopened_in", [None, REOPENED])
def test_resolves_never_wins_over_a_wrong_verdict(status: str, resolved: bool, reopened_in: ReopenedIn | None) -> None:
    before = standing(status, reopened_in=reopened_in)
    assert decide(OWN, before, occasion(verdict="wrong", resolved=resolved)) is None


@pytest.mark.parametrize("verdict", ["right", "wrong", None])
@pytest.mark.parametrize("resolved", [True, False])
def test_wont_fix_is_never_touched(verdict: Any, resolved: bool) -> None:
    assert decide(OWN, standing("wont-fix"), occasion(verdict=verdict, resolved=resolved)) is None


@pytest.mark.parametrize(
    ("how", "fixed_how", "by"),
    [("pin", "pin", ANN), ("went-back", "pin", ANN), ("unpin", "latest", ANN), ("latest", "latest", None)],
)
def test_how_and_by_are_those_of_what_runs(how: str, fixed_how: str, by: Principal | None) -> None:
    fixed = decide(OWN, standing("open"), occasion(how=how, verdict="right"))
    assert fixed is not None
    assert fixed.fixed_in == FixedIn(fixed_how, T1, "2.0.0", by)  # type: ignore[arg-type]
    reopened = decide(OWN, fixed, occasion(how=how, verdict="wrong"))
    assert reopened is not None
    assert reopened.reopened_in == ReopenedIn("2.0.0", how, T1, by)  # type: ignore[arg-type]
    assert reopened.fixed_in == fixed.fixed_in


def test_a_fold_tells_each_transition() -> None:
    events = [occasion(), occasion(verdict="right"), occasion(verdict="right"), occasion(verdict="wrong")]
    before = Standing("open", "improve", Sorted(Actor("user", "ann"), T0))
    made = fold(OWN, before, events)
    assert [(events.index(event), after.status) for event, after in made] == [(1, "fixed"), (3, "open")]

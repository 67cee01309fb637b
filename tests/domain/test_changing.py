"""What a change by hand makes of where a correction stands; both invariants over all of them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.changing import Change, change, remove
from app.domain.errors import BadInput
from app.domain.model import FIX_JOB, RULE, Actor, FixedIn, Queue, ReopenedIn, Sorted, Standing, Status

T0 = datetime(2026, 5, 1, 12, tzinfo=UTC)
NOW = T0 + timedelta(hours=1)
ANN = Actor("user", "ann")
BY_RULE = Sorted(RULE, T0)
FIXED, REOPENED = FixedIn("latest", T0, "2"), ReopenedIn("3", "latest", T0)


def standing(status: Any, queue: Any = None) -> Standing:
    return Standing(status, queue, BY_RULE if queue else None, FIXED, REOPENED)


@pytest.mark.parametrize(
    ("status", "queue", "asked", "after"),
    [
        ("open", None, {"sorted_to": "owner"}, ("with-owner", "owner")),
        ("being-fixed", "improve", {"sorted_to": "owner"}, ("with-owner", "owner")),
        ("being-fixed", "improve", {"sorted_to": "developer"}, ("being-fixed", "developer")),
        ("with-owner", "owner", {"sorted_to": "improve"}, ("open", "improve")),
        ("with-owner", "owner", {"sorted_to": "owner"}, ("with-owner", "owner")),
        ("fixed", "improve", {"sorted_to": "owner"}, ("fixed", "owner")),
        ("wont-fix", "owner", {"sorted_to": "improve"}, ("wont-fix", "improve")),
        ("open", "improve", {"status": "with-owner"}, ("with-owner", "owner")),
        ("open", "improve", {"status": "with-owner", "sorted_to": "owner"}, ("with-owner", "owner")),
        ("open", "improve", {"status": "being-fixed", "sorted_to": "owner"}, ("being-fixed", "owner")),
        ("with-owner", "owner", {"status": "open", "sorted_to": "developer"}, ("open", "developer")),
        ("with-owner", "owner", {"status": "wont-fix"}, ("wont-fix", "owner")),
        ("fixed", None, {"status": "open"}, ("open", None)),
        ("being-fixed", "owner", {"note": "still at it"}, ("being-fixed", "owner")),
    ],
)
def test_a_given_status_wins_over_what_a_re_sort_implies(status: Any, queue: Any, asked: Any, after: Any) -> None:
    made = change(standing(status, queue), Change(**asked), ANN, NOW)
    assert (made.status, made.sorted_to) == after


@pytest.mark.parametrize(
    ("status", "queue", "asked"),
    [
        ("open", None, {"status": "open", "sorted_to": "owner"}),
        ("with-owner", "owner", {"status": "open"}),
        ("being-fixed", "owner", {"status": "open"}),
        ("open", None, {"status": "with-owner", "sorted_to": "improve"}),
    ],
)
def test_what_can_not_hold_is_refused(status: Any, queue: Any, asked: Any) -> None:
    with pytest.raises(BadInput):
        change(standing(status, queue), Change(**asked), ANN, NOW)


def test_a_status_clears_the_stamps_and_a_re_sort_keeps_them() -> None:
    cleared = change(standing("open", "improve"), Change(status="open"), ANN, NOW)
    assert (cleared.fixed_in, cleared.reopened_in) == (None, None)
    kept = change(standing("open", "improve"), Change(sorted_to="owner"), ANN, NOW)
    assert (kept.fixed_in, kept.reopened_in) == (FIXED, REOPENED)


def test_sorted_says_who_why_and_when() -> None:
    made = change(standing("open"), Change(sorted_to="developer", reason="code"), FIX_JOB, NOW)
    assert made.sorted == Sorted(FIX_JOB, NOW, "code")
    asked_for_owner = change(standing("open", "improve"), Change(status="with-owner"), ANN, NOW)
    assert asked_for_owner.sorted == Sorted(ANN, NOW)
    already_there = change(standing("with-owner", "owner"), Change(status="with-owner"), ANN, NOW)
    assert already_there.sorted == BY_RULE


def test_removing_leaves_no_stamp() -> None:
    assert remove(standing("fixed", "improve")) == Standing("removed", "improve", BY_RULE)


queues = st.sampled_from([None, *get_args(Queue)])
by_hand = [s for s in get_args(Status) if s not in ("fixed", "removed")]


@given(st.lists(st.tuples(queues, st.sampled_from([None, *by_hand]))))
def test_the_invariants_hold_after_every_change(asked: list[tuple[Any, Any]]) -> None:
    now = Standing("open")
    for queue, status in asked:
        try:
            now = change(now, Change(sorted_to=queue, status=status), ANN, NOW)
        except BadInput:
            continue
        assert now.status not in ("open", "with-owner") or (now.status == "with-owner") == (now.sorted_to == "owner")

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.delivering import WAITS, Next, Outcome, after, wait_before

START = datetime(2026, 1, 1, tzinfo=UTC)
jitters = st.floats(0, 1, exclude_max=True)


@given(st.lists(jitters, min_size=len(WAITS), max_size=len(WAITS)))
def test_retries_go_on_for_about_three_days(drawn: list[float]) -> None:
    waits = [wait_before(n, jitter) for n, jitter in enumerate(drawn, 1)]
    total = sum((wait for wait in waits if wait), timedelta())
    assert timedelta(days=2.3) < total < timedelta(days=3.6)
    assert wait_before(len(WAITS) + 1, 0.5) is None


@given(st.integers(1, len(WAITS) - 1), jitters, jitters)
def test_waits_grow_whatever_the_jitter(retry: int, one: float, other: float) -> None:
    before, then = wait_before(retry, one), wait_before(retry + 1, other)
    assert before is not None
    assert then is not None
    assert then > before or WAITS[retry] == WAITS[-1], "up to the longest"
    assert then >= timedelta(seconds=WAITS[-1] * 0.8) or WAITS[retry] < WAITS[-1]


@pytest.mark.parametrize("status", [200, 201, 204, 299])
def test_every_2xx_is_delivered(status: int) -> None:
    assert after(Outcome(status), 1, 0.5, START, None) == Next("delivered")


def test_a_mail_server_that_took_it_delivered_it() -> None:
    assert after(Outcome(accepted=True), 3, 0.5, START, None) == Next("delivered")


@pytest.mark.parametrize("status", [100, 301, 302, 400, 404, 429, 500, 503])
def test_anything_else_is_tried_again(status: int) -> None:
    assert after(Outcome(status), 1, 0.5, START, None) == Next("pending", wait=timedelta(seconds=5))


def test_no_answer_is_tried_again() -> None:
    assert after(Outcome(error="timed out"), 2, 0.5, START, None) == Next("pending", wait=timedelta(seconds=10))


def test_410_ends_the_endpoint_at_once() -> None:
    assert after(Outcome(410), 1, 0.5, START, START) == Next("failed", ends="gone")


def test_the_last_failure_ends_an_endpoint_that_took_nothing_else() -> None:
    last, later = len(WAITS) + 1, START + timedelta(days=1)
    assert after(Outcome(500), last, 0.5, START, None) == Next("failed", ends="failing")
    assert after(Outcome(500), last, 0.5, START, START - timedelta(days=9)) == Next("failed", ends="failing")
    assert after(Outcome(500), last, 0.5, START, later) == Next("failed"), "it refuses this one message alone"
    assert after(Outcome(500), last - 1, 0.5, START, None).status == "pending"


def test_a_receiver_may_ask_for_a_longer_wait_but_not_for_ever() -> None:
    def wait(asked: int) -> timedelta | None:
        return after(Outcome(429, retry_after=asked), 1, 0.5, START, None).wait

    assert wait(1) == timedelta(seconds=5)
    assert wait(120) == timedelta(seconds=120)
    assert wait(10**8) == timedelta(hours=1)

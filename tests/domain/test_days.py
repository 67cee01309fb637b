from __future__ import annotations

import zoneinfo
from bisect import bisect
from datetime import UTC, date, datetime, timedelta
from importlib import resources

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from app.domain.days import days_between

ZONES = sorted((resources.files("tzdata") / "zones").read_text().split())


@pytest.mark.parametrize(
    ("zone", "day", "hours"),
    [
        ("Europe/Berlin", date(2026, 3, 29), 23),
        ("Europe/Berlin", date(2026, 10, 25), 25),
        ("America/New_York", date(2026, 11, 1), 25),
        ("Australia/Lord_Howe", date(2026, 4, 5), 24.5),
        ("America/Sao_Paulo", date(2018, 11, 4), 23),
        ("Asia/Kathmandu", date(2026, 1, 1), 24),
        ("CET", date(2026, 3, 29), 23),
        ("UTC", date(2026, 3, 29), 24),
    ],
)
def test_a_day_lasts_as_long_as_it_does_there(zone: str, day: date, hours: float) -> None:
    noon = datetime(day.year, day.month, day.day, 12, tzinfo=zoneinfo.ZoneInfo(zone))
    (first, start), (_, end) = days_between(zoneinfo.ZoneInfo(zone), noon, noon + timedelta(days=1))
    assert first == day
    assert end - start == timedelta(hours=hours)


@settings(max_examples=400)
@given(
    st.sampled_from(ZONES),
    st.datetimes(datetime(2020, 1, 1), datetime(2045, 1, 1), timezones=st.just(UTC)),
    st.integers(0, 40),
    st.integers(0, 40),
)
@example("Africa/Cairo", datetime(2026, 4, 23, 22, tzinfo=UTC), 3, 3)
@example("America/Nuuk", datetime(2027, 3, 28, 1, tzinfo=UTC), 3, 3)
def test_every_moment_is_in_the_day_that_its_clock_shows(name: str, moment: datetime, before: int, after: int) -> None:
    zone = zoneinfo.ZoneInfo(name)
    days = days_between(zone, moment - timedelta(days=before), moment + timedelta(days=after))
    starts = [start for _, start in days]
    assert starts == sorted(starts)
    assert days[bisect(starts, moment) - 1][0] == moment.astimezone(zone).date()


def test_no_clock_change_of_these_years_falls_between_two_days() -> None:
    begin, end = datetime(2025, 1, 1, tzinfo=UTC), datetime(2028, 1, 1, tzinfo=UTC)
    for zone in map(zoneinfo.ZoneInfo, ZONES):
        for day, start in days_between(zone, begin, end):
            assert start.astimezone(zone).date() == day
            assert (start - timedelta(seconds=1)).astimezone(zone).date() < day

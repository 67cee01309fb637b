"""Times on the wire."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from app.domain import times


@pytest.mark.parametrize(
    ("moment", "shown"),
    [
        (datetime(1, 1, 1, tzinfo=UTC), "0001-01-01T00:00:00.000Z"),
        (datetime(987, 6, 5, 4, 3, 2, 1999, UTC), "0987-06-05T04:03:02.001Z"),
        (datetime(2026, 11, 30, 1, 30, tzinfo=timezone(timedelta(hours=2))), "2026-11-29T23:30:00.000Z"),
        (datetime(9999, 12, 31, 23, 59, 59, 999999, UTC), "9999-12-31T23:59:59.999Z"),
    ],
)
def test_shows_four_digits_of_a_year_and_cuts_at_the_millisecond(moment: datetime, shown: str) -> None:
    assert times.wire(moment) == shown
    assert times.parse(shown) == times.to_millisecond(moment)

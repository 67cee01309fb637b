"""Calendar days of a time zone, with days of 23 and 25 hours where clocks change."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo


def days_between(zone: ZoneInfo, first: datetime, last: datetime) -> list[tuple[date, datetime]]:
    """Each day in ``zone`` from that of ``first`` to that of ``last``, with the moment (UTC) at which it begins."""
    start, end = first.astimezone(zone).date(), last.astimezone(zone).date()
    days = (start + timedelta(days=count) for count in range((end - start).days + 1))
    return [(day, datetime.combine(day, time(), zone).astimezone(UTC)) for day in days]

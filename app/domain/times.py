"""Times on the wire: RFC 3339 in UTC with milliseconds and ``Z``."""

from __future__ import annotations

import re
from datetime import UTC, datetime

_RFC3339 = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d{1,9})?([Zz]|[+-]\d\d:\d\d)", re.ASCII)


def wire(moment: datetime) -> str:
    """``2026-11-30T12:00:00.000Z``: milliseconds, cut, not rounded."""
    return moment.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"


def to_millisecond(moment: datetime) -> datetime:
    """``moment`` with the precision in which times are stored and shown."""
    return moment.replace(microsecond=moment.microsecond // 1000 * 1000)


def parse(text: str) -> datetime:
    """A moment from RFC 3339 text with a zone; digits past microseconds are cut.

    :raises ValueError: if it is none, has no zone, or isn't between the years 1 and 9999.
    """
    match = _RFC3339.fullmatch(text)
    if match is None:
        raise ValueError("must be an RFC 3339 time with a zone, such as 2026-01-31T12:00:00Z")
    fraction = match.group(1) or ""
    text = text[: match.start(1)] + fraction[:7] + match.group(2) if fraction else text
    try:
        return datetime.fromisoformat(text.upper()).astimezone(UTC)
    except (ValueError, OverflowError):
        raise ValueError("must be a time that exists, such as 2026-01-31T12:00:00Z") from None


EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
"""Stands where a time is required and not looked at."""

"""Counts of corrections: of just those rows that the list shows, in one statement and so of one moment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import orjson

from app.domain.days import days_between
from app.domain.filtering import NOT_FIXED, Filters
from app.domain.permission import Reach
from app.store.engine import Db
from app.store.listings import matching

_KEYS = {
    "day": "(%(days)s::text[])[width_bucket(c.created_at, %(starts)s::timestamptz[])]",
    "status": "c.status",
    "sortedTo": "coalesce(c.sorted_to, 'none')",
    "subject": "c.subject_kind || ':' || c.subject_id",
    "version": "c.subject_version",
    "correctorGroup": "coalesce(c.corrector_group_id, 'none')",
}
GROUPS = tuple(_KEYS)
"""What corrections can be counted by."""

# What was fixed and reopened is gathered first, in the order of an index, and only then held against the rows.
_STATS = """
SELECT (SELECT json_agg(json_build_array({names} g.count))
          FROM (SELECT {keys} count(*) FROM corrections c WHERE {matching} {grouped}) g),
       (SELECT percentile_cont(0.5)
               WITHIN GROUP (ORDER BY extract(epoch FROM clock_timestamp() - c.created_at)::float8)
          FROM corrections c WHERE {matching} AND c.status = ANY (%(not_fixed)s)),
       turned.to_fix, turned.reopened
  FROM (SELECT percentile_cont(0.5)
               WITHIN GROUP (ORDER BY extract(epoch FROM t.fixed_at - c.created_at)::float8) AS to_fix,
               avg(t.reopened::int) FILTER (WHERE t.fixed)::float8 AS reopened
          FROM corrections c
          JOIN (SELECT h.correction_id, bool_or(h.kind = 'fixed') AS fixed, bool_or(h.kind = 'reopened') AS reopened,
                       min(h.at) FILTER (WHERE h.kind = 'fixed' AND h.how IS DISTINCT FROM 'recorded-right') AS fixed_at
                  FROM correction_history h
                 WHERE h.tenant_id = %(tenant)s AND h.kind IN ('fixed', 'reopened')
                 GROUP BY h.correction_id) t ON t.correction_id = c.id
         WHERE {matching}) turned
"""

_FIRST = """
SELECT coalesce(min(created_at), clock_timestamp()), clock_timestamp()
  FROM corrections WHERE tenant_id = %s AND superseded_by IS NULL
"""


@dataclass(frozen=True, slots=True)
class Stats:
    """``groups``: the values of what was grouped by, and how many. Medians in seconds; ``None`` when of none."""

    total: int
    groups: list[tuple[list[str], int]]
    median_seconds_to_fix: float | None
    median_seconds_open: float | None
    reopen_rate: float | None


def count(db: Db, tenant_id: str, filters: Filters, reach: Reach, group_by: Sequence[str], zone: ZoneInfo) -> Stats:
    """Counts of the corrections that fit ``filters`` in ``reach``, by up to two of ``GROUPS``; days are of ``zone``."""
    condition, params = matching(tenant_id, filters, reach)
    params["not_fixed"] = list(NOT_FIXED)
    if "day" in group_by:
        params["days"], params["starts"] = _days(db, tenant_id, zone)
    row = db.row(_sql(condition, group_by), params)
    assert row is not None
    rows, still_open, to_fix, reopened = row
    counted = [(keys, number) for *keys, number in orjson.loads(rows or "[]")]
    total = sum(number for _, number in counted)
    return Stats(total, sorted(counted) if group_by else [], to_fix, still_open, reopened)


def _sql(condition: str, group_by: Sequence[str]) -> str:
    keys = "".join(f"{_KEYS[name]} AS k{place}, " for place, name in enumerate(group_by))
    names = "".join(f"g.k{place}, " for place in range(len(group_by)))
    grouped = "GROUP BY " + ", ".join(str(place + 1) for place in range(len(group_by))) if group_by else ""
    return _STATS.format(matching=condition, keys=keys, names=names, grouped=grouped)


def _days(db: Db, tenant_id: str, zone: ZoneInfo) -> tuple[list[str], list[datetime]]:
    """All days that corrections of the tenant can be of, up to tomorrow: one may come in meanwhile."""
    row = db.row(_FIRST, (tenant_id,))
    assert row is not None
    first, now = row
    days = days_between(zone, first, now + timedelta(days=1))
    return [day.isoformat() for day, _ in days], [start for _, start in days]

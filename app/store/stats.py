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

_STATS = """
WITH matched AS MATERIALIZED (
         SELECT c.id, c.created_at, c.status, jsonb_build_array({keys}) AS keys FROM corrections c WHERE {matching}),
     turns AS MATERIALIZED (
         SELECT m.created_at, bool_or(h.kind = 'reopened') AS reopened, bool_or(h.kind = 'fixed') AS fixed,
                min(h.at) FILTER (WHERE h.kind = 'fixed' AND h.how IS DISTINCT FROM 'recorded-right') AS fixed_at
           FROM matched m
           JOIN correction_history h
             ON h.tenant_id = %(tenant)s AND h.correction_id = m.id AND h.kind IN ('fixed', 'reopened')
          GROUP BY m.id, m.created_at)
SELECT (SELECT count(*) FROM matched),
       (SELECT json_agg(json_build_array(g.keys, g.count))
          FROM (SELECT m.keys, count(*) FROM matched m GROUP BY m.keys) g),
       (SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY extract(epoch FROM t.fixed_at - t.created_at)::float8)
          FROM turns t),
       (SELECT percentile_cont(0.5)
               WITHIN GROUP (ORDER BY extract(epoch FROM clock_timestamp() - m.created_at)::float8)
          FROM matched m WHERE m.status = ANY (%(not_fixed)s)),
       (SELECT avg(t.reopened::int)::float8 FROM turns t WHERE t.fixed)
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
    sql = _STATS.format(matching=condition, keys=", ".join(_KEYS[name] for name in group_by))
    row = db.row(sql, params)
    assert row is not None
    total, groups, to_fix, still_open, reopened = row
    counted = [(keys, number) for keys, number in orjson.loads(groups or "[]")] if group_by else []
    return Stats(total, sorted(counted), to_fix, still_open, reopened)


def _days(db: Db, tenant_id: str, zone: ZoneInfo) -> tuple[list[str], list[datetime]]:
    """All days that corrections of the tenant can be of, up to tomorrow: one may come in meanwhile."""
    row = db.row(_FIRST, (tenant_id,))
    assert row is not None
    first, now = row
    days = days_between(zone, first, now + timedelta(days=1))
    return [day.isoformat() for day, _ in days], [start for _, start in days]

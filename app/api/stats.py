"""``/v1/corrections/stats``: how many, how fast, how lasting."""

from __future__ import annotations

from typing import Any
from zoneinfo import ZoneInfo

from app.api.routes import Answer, Call, Routes, answer
from app.api.schemas.stats import StatsQuery, StatsShape
from app.domain.errors import ScopeInvalid
from app.domain.filtering import filters_of
from app.domain.permission import reach
from app.store import stats
from app.store.stats import Stats

routes = Routes("corrections")


@routes.add("GET", "/v1/corrections/stats", query=StatsQuery, answers={200: StatsShape}, errors=(ScopeInvalid,))
def correction_stats(call: Call) -> Answer:
    """Count corrections.

    Takes the list's filters and counts just the rows of the list, by up to two of day, status, sortedTo, subject,
    version and correctorGroup. Days are of the time zone that is asked for.
    """
    filters = filters_of(call.query, call.caller.principal)
    names = call.query.get("group_by", [])
    found = stats.count(
        call.db, call.caller.tenant_id, filters, reach(call.caller, "read"), names, ZoneInfo(call.query["timezone"])
    )
    return answer(_shown(found, names))


def _shown(found: Stats, names: list[str]) -> dict[str, Any]:
    groups = [dict(zip(names, values, strict=True)) | {"count": count} for values, count in found.groups]
    figures = {
        "medianSecondsToFix": _to_millisecond(found.median_seconds_to_fix),
        "medianSecondsOpen": _to_millisecond(found.median_seconds_open),
        "reopenRate": found.reopen_rate,
    }
    return {"total": found.total, "groups": groups} | {name: f for name, f in figures.items() if f is not None}


def _to_millisecond(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 3)

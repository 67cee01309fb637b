"""What a brief for Improve says besides the corrections that wait: what else was said of their runs, what was tried."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from app.domain import json_text
from app.domain.model import Subject
from app.domain.weighing import Weighed
from app.store.engine import Db
from app.store.history import SHOWN

Lane = tuple[str, Subject]
"""A subject in a project."""

_LANES = """
SELECT DISTINCT w.project_id, w.subject_kind, w.subject_id FROM work_items w
 WHERE w.tenant_id = %(tenant)s AND w.correction_id = ANY(%(ids)s) AND w.queue = 'improve'
   AND w.state IN ('ready', 'leased', 'parked')
 ORDER BY w.project_id, w.subject_kind, w.subject_id
"""


def lanes_of(db: Db, tenant_id: str, correction_ids: Sequence[str]) -> list[Lane]:
    """Whose those of the corrections are that wait for Improve."""
    rows = db.rows(_LANES, {"tenant": tenant_id, "ids": list(correction_ids)})
    return [(project_id, Subject(kind, subject_id)) for project_id, kind, subject_id in rows]


_SAID = """
SELECT c.id, c.run_id, correction_json(c), coalesce(g.weight, 1)::text
  FROM (SELECT DISTINCT m.run_id FROM corrections m WHERE m.tenant_id = %(tenant)s AND m.id = ANY(%(ids)s)) r
  JOIN corrections c ON c.tenant_id = %(tenant)s AND c.run_id = r.run_id AND c.unregistered_at IS NULL
  LEFT JOIN corrector_groups g ON g.tenant_id = c.tenant_id AND g.id = c.corrector_group_id
 ORDER BY c.created_at DESC, c.id DESC
"""


@dataclass(frozen=True, slots=True)
class Said:
    """A live correction: of which run, and what its word counts."""

    correction_id: str
    run_id: str
    weighed: Weighed


def said_of_runs(db: Db, tenant_id: str, correction_ids: Sequence[str]) -> list[Said]:
    """All live corrections of the runs that ``correction_ids`` correct, newest first."""
    rows = db.rows(_SAID, {"tenant": tenant_id, "ids": list(correction_ids)})
    return [Said(row[0], row[1], Weighed(json_text.parse(row[2]), Decimal(row[3]))) for row in rows]


_TRIED = f"""
SELECT t.correction_id, '[' || string_agg(t.shown, ',' ORDER BY t.at, t.rank) || ']'
  FROM (SELECT h.correction_id, h.at, h.id AS rank, {SHOWN} AS shown
          FROM correction_history h
         WHERE h.tenant_id = %(tenant)s AND h.correction_id = ANY(%(ids)s) AND h.kind <> 'recorded'
         UNION ALL
        SELECT w.correction_id, l.ended_at, l.attempt, concat(
               '{{"at":"', wire_time(l.ended_at), '","kind":"lease-', l.how, '"',
               ',"by":', wire_principal(l.by_kind, l.by_id), ',"reason":' || to_json(l.reason)::text, '}}')
          FROM work_items w
          JOIN ended_leases l ON l.tenant_id = w.tenant_id AND l.work_item_id = w.id
         WHERE w.tenant_id = %(tenant)s AND w.correction_id = ANY(%(ids)s)) t
 GROUP BY t.correction_id
"""


def tried(db: Db, tenant_id: str, correction_ids: Sequence[str]) -> dict[str, str]:
    """What was done about each correction before, oldest first, as a JSON array: its history since it was recorded, and
    the leases on it that ended without an outcome. Corrections of which there is nothing are left out."""
    return dict(db.rows(_TRIED, {"tenant": tenant_id, "ids": list(correction_ids)}))


_HEAD = """
SELECT w.correction_id, w.ready_since FROM work_items w
 WHERE w.tenant_id = {tenant} AND w.queue = 'improve' AND w.project_id = {project} AND w.subject_kind = {kind}
   AND w.subject_id = {subject} AND w.state = 'ready' AND NOT w.delayed
 ORDER BY w.correction_created_at, w.correction_id LIMIT 1
"""

_NEXT = _HEAD.format(tenant="%s", project="%s", kind="%s", subject="%s")


def next_of(db: Db, tenant_id: str, lane: Lane) -> str | None:
    """The correction of a subject in a project that waits longest to be claimed for Improve."""
    project_id, subject = lane
    row = db.row(_NEXT, (tenant_id, project_id, subject.kind, subject.id))
    return None if row is None else row[0]


_OVERLOOKED = f"""
-- every tenant
SELECT t.id, array_agg(h.correction_id)
  FROM tenants t
 CROSS JOIN LATERAL work_subjects(t.id, 'improve') l
 CROSS JOIN LATERAL ({
    _HEAD.format(tenant="t.id", project="l.project_id", kind="l.subject_kind", subject="l.subject_id")
}) h
 WHERE h.ready_since < now() - interval '1 minute'
 GROUP BY t.id
"""


def overlooked(db: Db) -> dict[str, list[str]]:
    """By tenant, one correction of each subject and project that has waited for Improve for over a minute."""
    return dict(db.rows(_OVERLOOKED))

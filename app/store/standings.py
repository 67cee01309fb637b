"""Where one correction stands: read under a lock for a change by hand, and written with its place among the events."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from app.domain.lifecycle import Corrected, Occasion, Running
from app.domain.model import Actor, FixedIn, Principal, ProjectRef, ReopenedIn, Sorted, Standing, Subject
from app.store.engine import Db
from app.store.running import keys_of


@dataclass(frozen=True, slots=True)
class Held:
    """A correction that nobody else can change until the transaction ends. ``accepted_seq``: the head of its log."""

    id: str
    tenant_id: str
    project: ProjectRef
    subject: Subject
    corrected: Corrected
    standing: Standing
    link: str | None
    superseded: bool
    version: int
    decided_seq: int
    accepted_seq: int

    @property
    def live(self) -> bool:
        return not self.superseded and self.standing.status != "removed"

    def changed(self, standing: Standing) -> Held:
        """The same with another standing."""
        return replace(self, standing=standing)


@dataclass(frozen=True, slots=True)
class Note:
    """A note of somebody's on where a correction stands."""

    text: str
    by: Principal


@dataclass(frozen=True, slots=True)
class Shown:
    """A correction as the wire shows it."""

    json: str
    version: int

    @property
    def etag(self) -> str:
        return f'"{self.version}"'


@dataclass(frozen=True, slots=True)
class Pending:
    """An event that wasn't decided on yet for the correction.

    ``verdict_from``: the test run that its verdict, if any, comes from. ``test_run_id``: the one that it is, if any.
    """

    seq: int
    occasion: Occasion
    verdict_from: str | None
    test_run_id: str | None


_PLACE = """
SELECT c.project_id, p.org_id, c.subject_kind, c.subject_id, c.subject_version
  FROM corrections c JOIN projects p ON p.tenant_id = c.tenant_id AND p.id = c.project_id
 WHERE c.tenant_id = %s AND c.id = %s
"""

_HOLD = """
SELECT c.end_user, c.status, c.sorted_to, c.sorted_by_kind, c.sorted_by_id, c.sorted_reason, c.sorted_at,
       c.fixed_version, c.fixed_how, c.fixed_by_kind, c.fixed_by_id, c.fixed_at,
       c.reopened_version, c.reopened_how, c.reopened_by_kind, c.reopened_by_id, c.reopened_at,
       c.link, c.superseded_by IS NOT NULL AS superseded, c.version, c.decided_seq
  FROM corrections c WHERE c.tenant_id = %(tenant)s AND c.id = %(correction)s FOR NO KEY UPDATE
"""

_HEAD = """
SELECT accepted_seq, applied_seq FROM running
 WHERE tenant_id = %(tenant)s AND project_id = %(project)s AND subject_kind = %(kind)s AND subject_id = %(id)s
"""


def place_of(db: Db, tenant_id: str, correction_id: str) -> tuple[ProjectRef, Subject] | None:
    """The project and the corrected run's subject of a correction, which never change."""
    row = db.row(_PLACE, (tenant_id, correction_id))
    return None if row is None else (ProjectRef(row[0], row[1]), Subject(row[2], row[3], row[4]))


def hold(db: Db, tenant_id: str, correction_id: str, project: ProjectRef, subject: Subject) -> Held | None:
    """The correction, whose ``place_of`` this is, held with its place among the events of its subject.

    What was applied to every correction of the subject counts as decided. ``None`` if it is no longer there.
    """
    keys = keys_of(tenant_id, project.id, subject) | {"correction": correction_id}
    db.run("SELECT lock_subject_shared(%(tenant)s, %(project)s, %(kind)s, %(id)s)", keys)
    rows = db.dicts(_HOLD, keys)
    if not rows:
        return None
    row = rows[0]
    accepted, applied = db.row(_HEAD, keys) or (0, 0)
    assert subject.version is not None
    return Held(
        correction_id,
        tenant_id,
        project,
        subject,
        Corrected(subject.version, row["end_user"]),
        standing_of(row),
        row["link"],
        row["superseded"],
        row["version"],
        max(row["decided_seq"], applied),
        accepted,
    )


def standing_of(row: Mapping[str, Any]) -> Standing:
    """The standing that the columns of ``row`` hold."""
    sorted_, fixed, reopened = None, None, None
    if row["sorted_at"] is not None:
        sorted_ = Sorted(Actor(row["sorted_by_kind"], row["sorted_by_id"]), row["sorted_at"], row["sorted_reason"])
    if row["fixed_at"] is not None:
        fixed = FixedIn(row["fixed_how"], row["fixed_at"], row["fixed_version"], _principal(row, "fixed"))
    if row["reopened_at"] is not None:
        how, at = row["reopened_how"], row["reopened_at"]
        reopened = ReopenedIn(row["reopened_version"], how, at, _principal(row, "reopened"))
    return Standing(row["status"], row["sorted_to"], sorted_, fixed, reopened)


def _principal(row: Mapping[str, Any], name: str) -> Principal | None:
    kind = row[f"{name}_by_kind"]
    return Principal(kind, row[f"{name}_by_id"]) if kind else None


NEWEST_VERDICT = """
SELECT r.verdict, r.test_run_id FROM test_results r
 WHERE r.tenant_id = %(tenant)s AND r.project_id = %(project)s AND r.subject_kind = %(kind)s
   AND r.subject_id = %(id)s AND r.version = {version} AND r.correction_id = {correction} AND r.seq <= {seq}
 ORDER BY r.at DESC, r.seq DESC LIMIT 1
"""
"""The newest verdict on a correction for a version as of an event."""

_PENDING = f"""
SELECT e.seq, e.accepted_at, e.version, e.how, e.by_kind, e.by_id, v.verdict, n.resolved, v.test_run_id,
       CASE WHEN e.kind = 'test-run' THEN e.source_id END
  FROM accepted_events e
 CROSS JOIN LATERAL (
       SELECT EXISTS (SELECT FROM resolved_corrections x
                       WHERE x.tenant_id = e.tenant_id AND x.source_id = e.resolves_id AND x.project_id = e.project_id
                         AND x.correction_id = %(correction)s) AS resolved,
              EXISTS (SELECT FROM test_results t
                       WHERE e.kind = 'test-run' AND t.tenant_id = e.tenant_id AND t.test_run_id = e.source_id
                         AND t.correction_id = %(correction)s) AS tested) n
  LEFT JOIN LATERAL ({NEWEST_VERDICT.format(version="e.version", correction="%(correction)s", seq="e.seq")}) v ON true
 WHERE e.tenant_id = %(tenant)s AND e.project_id = %(project)s AND e.subject_kind = %(kind)s AND e.subject_id = %(id)s
   AND e.seq > %(decided)s AND e.decides <> 'none' AND (e.decides = 'all' OR n.resolved OR n.tested)
 ORDER BY e.seq
"""


def pending(db: Db, held: Held) -> list[Pending]:
    """The accepted events that concern the held correction and weren't decided on for it, in their order."""
    if held.decided_seq >= held.accepted_seq:
        return []
    keys = keys_of(held.tenant_id, held.project.id, held.subject)
    rows = db.rows(_PENDING, keys | {"correction": held.id, "decided": held.decided_seq})
    return [_pending(*row) for row in rows]


def _pending(
    seq: int, at: datetime, version: str, how: Any, by_kind: Any, by_id: str, verdict: Any, resolved: bool,
    verdict_from: str | None, test_run_id: str | None,
) -> Pending:  # fmt: skip
    running = Running(version, how, Principal(by_kind, by_id) if by_kind else None)
    return Pending(seq, Occasion(at, running, verdict, resolved), verdict_from, test_run_id)


_SAVE = """
UPDATE corrections c
   SET status = %(status)s, sorted_to = %(sorted_to)s, sorted_by_kind = %(sorted_by_kind)s,
       sorted_by_id = %(sorted_by_id)s, sorted_reason = %(sorted_reason)s, sorted_at = %(sorted_at)s,
       fixed_version = %(fixed_version)s, fixed_how = %(fixed_how)s, fixed_by_kind = %(fixed_by_kind)s,
       fixed_by_id = %(fixed_by_id)s, fixed_at = %(fixed_at)s,
       reopened_version = %(reopened_version)s, reopened_how = %(reopened_how)s,
       reopened_by_kind = %(reopened_by_kind)s, reopened_by_id = %(reopened_by_id)s, reopened_at = %(reopened_at)s,
       status_note_text = coalesce(%(note)s, c.status_note_text),
       status_note_by_kind = CASE WHEN %(note)s IS NULL THEN c.status_note_by_kind ELSE %(note_by_kind)s END,
       status_note_by_id = CASE WHEN %(note)s IS NULL THEN c.status_note_by_id ELSE %(note_by_id)s END,
       status_note_at = CASE WHEN %(note)s IS NULL THEN c.status_note_at ELSE %(now)s END,
       link = %(link)s, decided_seq = %(decided)s, version = c.version + 1, updated_at = %(now)s,
       unregistered_at = CASE WHEN %(status)s = 'removed' THEN %(now)s END
 WHERE c.tenant_id = %(tenant)s AND c.id = %(correction)s
RETURNING correction_json(c), c.version
"""

_SHOW = "SELECT correction_json(c), c.version FROM corrections c WHERE c.tenant_id = %s AND c.id = %s"


def save(db: Db, held: Held, link: str | None, note: Note | None, now: datetime) -> Shown:
    """Write where the held, live correction stands, its link, a new note if there is one, and that all events accepted
    so far are in it."""
    values = {
        "tenant": held.tenant_id, "correction": held.id, "link": link, "decided": held.accepted_seq, "now": now,
        "note": note.text if note else None, "note_by_kind": note.by.kind if note else None,
        "note_by_id": note.by.id if note else None,
    }  # fmt: skip
    row = db.row(_SAVE, values | columns(held.standing))
    assert row is not None
    return Shown(*row)


def show(db: Db, tenant_id: str, correction_id: str) -> Shown:
    """A correction that there is."""
    row = db.row(_SHOW, (tenant_id, correction_id))
    assert row is not None
    return Shown(*row)


def columns(standing: Standing) -> dict[str, Any]:
    """``standing`` as the columns that hold it."""
    sorted_, fixed, reopened = standing.sorted, standing.fixed_in, standing.reopened_in
    return {
        "status": standing.status,
        "sorted_to": standing.sorted_to,
        "sorted_by_kind": sorted_.by.kind if sorted_ else None,
        "sorted_by_id": sorted_.by.id if sorted_ else None,
        "sorted_reason": sorted_.reason if sorted_ else None,
        "sorted_at": sorted_.at if sorted_ else None,
        **_stamp("fixed", fixed),
        **_stamp("reopened", reopened),
    }


def _stamp(name: str, stamp: FixedIn | ReopenedIn | None) -> dict[str, Any]:
    by = stamp.by if stamp else None
    return {
        f"{name}_version": stamp.version if stamp else None,
        f"{name}_how": stamp.how if stamp else None,
        f"{name}_by_kind": by.kind if by else None,
        f"{name}_by_id": by.id if by else None,
        f"{name}_at": stamp.at if stamp else None,
    }

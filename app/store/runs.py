"""Runs. Payloads are the JSON text that came."""

from __future__ import annotations

from typing import Any

from app.domain.model import ENDED, KnownRun, ProjectRef, RunContent
from app.domain.permission import Reach
from app.store.conditions import Conditions, Position
from app.store.engine import Db

PAYLOADS = ("input", "output", "messages", "retrieved", "recalled", "calls")
"""Columns that lists leave out."""

_BEFORE_PUT = """
SELECT p.id, p.org_id, r.project_id, r.status, r.content_sha256, r.erased_at IS NOT NULL
  FROM projects p LEFT JOIN runs r ON r.tenant_id = p.tenant_id AND r.id = %(id)s
 WHERE p.tenant_id = %(tenant)s AND p.id = %(project)s
"""


def before_put(db: Db, tenant_id: str, run_id: str, project_id: str) -> tuple[ProjectRef | None, KnownRun | None]:
    """The project, and the run (of whichever project) as far as a PUT asks. No run without the project."""
    row = db.row(_BEFORE_PUT, {"tenant": tenant_id, "id": run_id, "project": project_id})
    if row is None:
        return None, None
    project, known_in = ProjectRef(row[0], row[1]), row[2]
    return project, None if known_in is None else KnownRun(known_in, row[3], bytes(row[4]), row[5])


_CONTENT = (
    "subject_kind", "subject_id", "subject_version", "status", "conversation_id", "parent_run_id", "node_id", "scope",
    "replay_of", "started_at", "finished_at", "content_sha256", "segments", "input", "output", "messages", "retrieved",
    "recalled", "session_approval", "calls",
)  # fmt: skip
_ENDED_AT = "CASE WHEN %(ended)s THEN t.now END"

_ADD = f"""
INSERT INTO runs (tenant_id, id, project_id, {", ".join(_CONTENT)}, arrived_at, updated_at, ended_at)
SELECT %(tenant)s, %(id)s, %(project_id)s, {", ".join(f"%({name})s" for name in _CONTENT)}, t.now, t.now, {_ENDED_AT}
  FROM (SELECT clock_timestamp() AS now) t
ON CONFLICT DO NOTHING
"""

_REPLACE = f"""
UPDATE runs r
   SET {", ".join(f"{name} = %({name})s" for name in _CONTENT)}, updated_at = t.now, ended_at = {_ENDED_AT}
  FROM (SELECT clock_timestamp() AS now) t
 WHERE r.tenant_id = %(tenant)s AND r.id = %(id)s AND r.content_sha256 = %(known_sha256)s AND r.erased_at IS NULL
"""


def add(db: Db, tenant_id: str, run_id: str, content: RunContent) -> bool:
    """Store a new run; false if there is one of that id by now."""
    return db.run(_ADD, _params(tenant_id, run_id, content)) == 1


def replace(db: Db, tenant_id: str, run_id: str, content: RunContent, known: KnownRun) -> bool:
    """Put ``content`` in the place of the run's; false if that is no longer what was ``known``."""
    return db.run(_REPLACE, _params(tenant_id, run_id, content) | {"known_sha256": known.content_sha256}) == 1


def _params(tenant_id: str, run_id: str, content: RunContent) -> dict[str, Any]:
    subject = content.subject
    return {name: getattr(content, name, None) for name in _CONTENT} | {
        "tenant": tenant_id,
        "id": run_id,
        "project_id": content.project_id,
        "subject_kind": subject.kind,
        "subject_id": subject.id,
        "subject_version": subject.version,
        "ended": content.status in ENDED,
    }


def project_of(db: Db, tenant_id: str, run_id: str) -> ProjectRef | None:
    """The project of a run."""
    row = db.row(
        "SELECT p.id, p.org_id FROM runs r JOIN projects p ON p.tenant_id = r.tenant_id AND p.id = r.project_id"
        " WHERE r.tenant_id = %s AND r.id = %s",
        (tenant_id, run_id),
    )
    return None if row is None else ProjectRef(*row)


def show(db: Db, tenant_id: str, run_id: str, *, hold: bool = False) -> str | None:
    """The run as the wire shows it, payloads and all. ``hold``: an erasure waits until this transaction ends."""
    row = db.row(
        f"SELECT run_summary(r), erased_at IS NOT NULL, {', '.join(PAYLOADS)} FROM runs r"
        f" WHERE tenant_id = %s AND id = %s {'FOR SHARE' if hold else ''}",
        (tenant_id, run_id),
    )
    if row is None:
        return None
    summary, erased, given_in, given_out, *others = row
    parts = [summary[:-1], ',"input":', given_in or "null"]
    if given_out is not None or erased:
        parts += [',"output":', given_out or "null"]
    for name, text in zip(PAYLOADS[2:], others, strict=True):
        parts += [f',"{name}":', text] if text is not None else []
    return "".join([*parts, "}"])


def newest(
    db: Db, tenant_id: str, reach: Reach, filters: dict[str, Any], count: int, position: Position | None
) -> list[tuple[Position, str]]:
    """Up to ``count`` runs that fit ``filters`` within ``reach``, after ``position``, newest first, without payloads.

    ``filters``: ``project_id``, ``subject_kind``, ``subject_id``, ``version``, ``conversation_id`` (equal), ``status``
    (one of a list) and ``corrected`` (whether it has a live correction).
    """
    asked = Conditions({"tenant": tenant_id, "count": count}, ["r.tenant_id = %(tenant)s"])
    for name in ("project_id", "subject_kind", "subject_id", "conversation_id"):
        asked.equal(f"r.{name}", name, filters.get(name))
    asked.equal("r.subject_version", "version", filters.get("version"))
    if filters.get("status"):
        asked.add("r.status = ANY(%(status)s)", status=filters["status"])
    if filters.get("corrected") is not None:
        asked.add(f"{'' if filters['corrected'] else 'NOT '}EXISTS ({_LIVE})")
    asked.after(position, "r.arrived_at", "r.id")
    if reach.everything:
        rows = db.rows(_PAGE.format(conditions=asked.sql), asked.params)
    else:
        readable = Conditions({"tenant": tenant_id}, ["p.tenant_id = %(tenant)s"])
        readable.within(reach, "p.id")
        asked.add("r.project_id = p.id", **readable.params)
        page = _PAGE.format(conditions=asked.sql)
        rows = db.rows(_PAGE_OF_PROJECTS.format(readable=readable.sql, page=page), asked.params)
    return [((row[0], row[1]), row[2]) for row in rows]


_LIVE = """
SELECT FROM corrections c WHERE c.tenant_id = r.tenant_id AND c.run_id = r.id AND c.unregistered_at IS NULL
"""
_PAGE = """
SELECT r.arrived_at, r.id, run_summary(r) FROM runs r WHERE {conditions}
 ORDER BY r.arrived_at DESC, r.id DESC LIMIT %(count)s
"""

# The newest of each project that may be read, then the newest of those: a page reads few rows, however many there are.
_PAGE_OF_PROJECTS = """
SELECT x.* FROM projects p CROSS JOIN LATERAL ({page}) x(arrived_at, id, summary)
 WHERE {readable} ORDER BY x.arrived_at DESC, x.id DESC LIMIT %(count)s
"""

"""Erasures: what was asked for, and how far each is. What they clear is in ``clearing.py``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from app.domain.erasing import Target, TargetKind
from app.domain.model import Principal, ProjectRef
from app.store.corrections import participant_digest
from app.store.engine import Db

Phase = Literal["list", "clear", "contexts", "answers", "done"]

COUNTS = ("runs", "copies", "contexts", "corrections", "answers")
"""What an erasure counts: runs and copies cleared, contexts of other copies that lost something, corrections cleared,
kept idempotent answers withheld."""


@dataclass(frozen=True, slots=True)
class Erasure:
    """An erasure under way, held by this transaction."""

    tenant_id: str
    id: str
    kind: TargetKind
    phase: Phase


@dataclass(frozen=True, slots=True)
class ShownErasure:
    """An erasure as the wire shows it. ``project``: of a run's erasure, for deciding who may see it."""

    row: dict[str, Any]
    project: ProjectRef | None


# What retention purged may still stand in copies: it can be erased as long as something of it is left.
_PROJECT_OF_RUN = """
SELECT p.id, p.org_id
  FROM projects p
 WHERE p.tenant_id = %(tenant)s AND p.id = coalesce(
       (SELECT r.project_id FROM runs r WHERE r.tenant_id = %(tenant)s AND r.id = %(run)s),
       (SELECT o.project_id FROM copies o WHERE o.tenant_id = %(tenant)s AND o.run_id = %(run)s),
       (SELECT o.project_id FROM copy_sources s JOIN copies o ON o.tenant_id = s.tenant_id AND o.run_id = s.run_id
         WHERE s.tenant_id = %(tenant)s AND s.source_run_id = %(run)s LIMIT 1),
       (SELECT t.project_id FROM traces t WHERE t.tenant_id = %(tenant)s AND t.id = %(run)s
         ORDER BY t.project_id LIMIT 1))
"""


def project_of_run(db: Db, tenant_id: str, run_id: str) -> ProjectRef | None:
    """The project of a run of which something is there: itself, its copy, a part of another run's context,
    or spans of which it would be made."""
    row = db.row(_PROJECT_OF_RUN, {"tenant": tenant_id, "run": run_id})
    return None if row is None else ProjectRef(*row)


_KNOWN = {
    "conversation": "SELECT EXISTS (SELECT FROM runs WHERE tenant_id = %(tenant)s AND conversation_id = %(id)s)"
    " OR EXISTS (SELECT FROM copies WHERE tenant_id = %(tenant)s AND conversation_id = %(id)s)"
    " OR EXISTS (SELECT FROM copy_sources WHERE tenant_id = %(tenant)s AND conversation_id = %(id)s)"
    " OR EXISTS (SELECT FROM spans WHERE tenant_id = %(tenant)s AND conversation_id = %(id)s)",
    "participant": "SELECT EXISTS (SELECT FROM corrections WHERE tenant_id = %(tenant)s"
    " AND participant_sha256 = %(sha256)s AND participant_id IS NOT NULL)"
    " OR EXISTS (SELECT FROM participant_tokens WHERE tenant_id = %(tenant)s AND participant_sha256 = %(sha256)s)",
}


def known(db: Db, tenant_id: str, target: Target) -> bool:
    """Whether anything is known of the conversation or participant."""
    values = {"tenant": tenant_id, "id": target.id, "sha256": participant_digest(target.id)}
    return bool(db.value(_KNOWN[target.kind], values))


_ADD = """
INSERT INTO erasures (tenant_id, id, kind, project_id, run_id, conversation_id, participant_sha256, by_kind, by_id,
                      asked_at)
VALUES (%(tenant)s, %(id)s, %(kind)s, %(project)s, %(run)s, %(conversation)s, %(participant)s, %(by_kind)s, %(by_id)s,
        clock_timestamp())
"""


def add(db: Db, tenant_id: str, erasure_id: str, target: Target, project_id: str | None, by: Principal) -> None:
    """Keep what was asked for; of a participant the hash alone."""
    values = {
        "tenant": tenant_id, "id": erasure_id, "kind": target.kind, "project": project_id,
        "run": target.id if target.kind == "run" else None,
        "conversation": target.id if target.kind == "conversation" else None,
        "participant": participant_digest(target.id) if target.kind == "participant" else None,
        "by_kind": by.kind, "by_id": by.id,
    }  # fmt: skip
    db.run(_ADD, values)


_SHOW = f"""
SELECT e.phase, {", ".join(f"e.{name}" for name in COUNTS)}, e.project_id, p.org_id
  FROM erasures e LEFT JOIN projects p ON p.tenant_id = e.tenant_id AND p.id = e.project_id
 WHERE e.tenant_id = %s AND e.id = %s
"""


def show(db: Db, tenant_id: str, erasure_id: str) -> ShownErasure | None:
    """An erasure: what it did so far."""
    row = db.row(_SHOW, (tenant_id, erasure_id))
    if row is None:
        return None
    phase, *counts, project_id, org_id = row
    shown = {
        "id": erasure_id,
        "status": "done" if phase == "done" else "running",
        "counts": dict(zip(COUNTS, counts, strict=True)),
    }
    return ShownErasure(shown, None if project_id is None else ProjectRef(project_id, org_id))


def hold(db: Db, tenant_id: str, erasure_id: str) -> Erasure | None:
    """The erasure, if it isn't done; no other worker is at it until the transaction ends."""
    row = db.row(
        "SELECT kind, phase FROM erasures WHERE tenant_id = %s AND id = %s AND phase <> 'done' FOR UPDATE",
        (tenant_id, erasure_id),
    )
    return None if row is None else Erasure(tenant_id, erasure_id, row[0], row[1])


_COUNT = f"""
UPDATE erasures SET {", ".join(f"{name} = {name} + %({name})s" for name in COUNTS)}
 WHERE tenant_id = %(tenant)s AND id = %(id)s
"""


def count(db: Db, erasure: Erasure, **more: int) -> None:
    """Add to what the erasure did."""
    db.run(_COUNT, dict.fromkeys(COUNTS, 0) | more | {"tenant": erasure.tenant_id, "id": erasure.id})


def go_on(db: Db, erasure: Erasure, phase: Phase) -> None:
    """Let the next step be ``phase``'s first."""
    db.run(
        "UPDATE erasures SET phase = %s, answers_after = '' WHERE tenant_id = %s AND id = %s",
        (phase, erasure.tenant_id, erasure.id),
    )


_DONE = """
WITH listed AS (DELETE FROM erasure_items WHERE tenant_id = %(tenant)s AND erasure_id = %(id)s)
UPDATE erasures SET phase = 'done', participant_sha256 = NULL, done_at = clock_timestamp()
 WHERE tenant_id = %(tenant)s AND id = %(id)s
"""


def end(db: Db, erasure: Erasure) -> None:
    """Mark the erasure done, and forget whom it was about."""
    db.run(_DONE, {"tenant": erasure.tenant_id, "id": erasure.id})


# What had come when the erasure was asked for. What comes later is another matter, and another erasure's.
_LIST: dict[TargetKind, str] = {
    "run": """
SELECT e.run_id FROM erasures e WHERE {this}
""",
    "conversation": """
SELECT r.id FROM erasures e
  JOIN runs r ON r.tenant_id = e.tenant_id AND r.conversation_id = e.conversation_id
 WHERE {this} AND r.erased_at IS NULL AND r.arrived_at <= e.asked_at
 UNION
SELECT o.run_id FROM erasures e
  JOIN copies o ON o.tenant_id = e.tenant_id AND o.conversation_id = e.conversation_id
 WHERE {this} AND o.erased_at IS NULL AND o.taken_at <= e.asked_at
 UNION
SELECT s.source_run_id FROM erasures e
  JOIN copy_sources s ON s.tenant_id = e.tenant_id AND s.conversation_id = e.conversation_id
 WHERE {this}
 UNION
SELECT s.trace_id FROM erasures e
  JOIN spans s ON s.tenant_id = e.tenant_id AND s.conversation_id = e.conversation_id
  JOIN traces t ON t.tenant_id = s.tenant_id AND t.id = s.trace_id AND t.project_id = s.project_id
 WHERE {this} AND t.content_sha256 IS NULL AND t.arrived_at <= e.asked_at
""",
    "participant": """
SELECT c.id FROM erasures e
  JOIN corrections c ON c.tenant_id = e.tenant_id AND c.participant_sha256 = e.participant_sha256
 WHERE {this} AND c.participant_id IS NOT NULL AND c.created_at <= e.asked_at
""",
}
_ADD_ITEMS = """
INSERT INTO erasure_items (tenant_id, erasure_id, kind, id)
SELECT %(tenant)s, %(id)s, %(kind)s, found.id FROM ({found}) AS found (id)
ON CONFLICT DO NOTHING
"""


def list_items(db: Db, erasure: Erasure) -> bool:
    """List what has to be cleared; whether that is anything that wasn't listed before."""
    found = _LIST[erasure.kind].format(this="e.tenant_id = %(tenant)s AND e.id = %(id)s")
    kind = "correction" if erasure.kind == "participant" else "run"
    values = {"tenant": erasure.tenant_id, "id": erasure.id, "kind": kind}
    return db.run(_ADD_ITEMS.format(found=found), values) > 0


def next_items(db: Db, erasure: Erasure, count: int) -> list[str]:
    """Up to ``count`` of what is listed and not cleared."""
    rows = db.rows(
        "SELECT id FROM erasure_items WHERE tenant_id = %s AND erasure_id = %s AND NOT cleared ORDER BY id LIMIT %s",
        (erasure.tenant_id, erasure.id, count),
    )
    return [row[0] for row in rows]


def cleared(db: Db, erasure: Erasure, ids: list[str]) -> None:
    """Note that what is listed as ``ids`` was cleared."""
    db.run(
        "UPDATE erasure_items SET cleared = true WHERE tenant_id = %s AND erasure_id = %s AND id = ANY(%s)",
        (erasure.tenant_id, erasure.id, ids),
    )


def touched(db: Db, erasure: Erasure, run_id: str) -> None:
    """Note that something was taken out of the copy of ``run_id``."""
    db.run(
        "INSERT INTO erasure_items (tenant_id, erasure_id, kind, id, cleared) VALUES (%s, %s, 'copy', %s, true)"
        " ON CONFLICT DO NOTHING",
        (erasure.tenant_id, erasure.id, run_id),
    )

"""Corrections: what recording reads and writes, and one with the copy of its run."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import orjson

from app.domain import json_text
from app.domain.assertion import NamedGroup
from app.domain.jobs import Job
from app.domain.model import Actor, Principal, ProjectRef, Standing, Subject
from app.domain.recording import Said
from app.store.engine import Db
from app.store.groups import assertable_of
from app.store.outbox import as_rows


@dataclass(frozen=True, slots=True)
class RunContext:
    """All that recording needs to know of a run, read under its lock. ``at`` is the moment of recording.

    ``output`` is there only when it was asked for; ``live_id`` is the caller's correction that a new one ends.
    """

    at: datetime
    project: ProjectRef
    subject: Subject
    finished: bool
    erased: bool
    output: str | None
    first: bool
    live_id: str | None
    accepted_seq: int
    group: NamedGroup | None


@dataclass(frozen=True, slots=True)
class NewCorrection:
    """A correction to be, sorted already."""

    id: str
    tenant_id: str
    run_id: str
    said: Said
    corrector_group_id: str | None
    expert: bool
    made_by: Principal
    participant_id: str | None
    end_user: bool
    standing: Standing


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """A history row of a recording."""

    kind: str
    by: Actor | None = None
    to: str | None = None
    how: str | None = None


def participant_digest(participant_id: str | None) -> bytes:
    """What participants are told apart by: they may be of any length. Empty without one."""
    return b"" if participant_id is None else hashlib.sha256(participant_id.encode()).digest()


_CONTEXT = """
SELECT at, project_id, org_id, subject_kind, subject_id, subject_version, status = 'completed' AND has_output, erased,
       output, first, live_id, accepted_seq, group_scope, group_project, group_agent, group_assertable
  FROM recording_context(%s, %s, %s, %s, %s, %s, %s)
"""


def recording_context(
    db: Db,
    tenant_id: str,
    run_id: str,
    made_by: Principal,
    participant_id: str | None,
    group_id: str | None,
    with_output: bool,
) -> RunContext | None:
    """What recording on the run must know; ``None`` if the tenant has no such run. Locks the run."""
    digest = participant_digest(participant_id)
    row = db.row(_CONTEXT, (tenant_id, run_id, made_by.kind, made_by.id, digest, group_id, with_output))
    if row is None:
        return None
    at, project, org, kind, subject, version, finished, erased, output, first, live, accepted, *group = row
    return RunContext(
        at,
        ProjectRef(project, org),
        Subject(kind, subject, version),
        finished,
        erased,
        output,
        first,
        live,
        accepted or 0,
        NamedGroup(group[0], group[1], group[2], assertable_of(group[3])) if group[0] else None,
    )


def record(
    db: Db, new: NewCorrection, context: RunContext, history: Iterable[HistoryEntry], jobs: Iterable[Job]
) -> str:
    """Store ``new`` and all that goes with it in one statement; its JSON as the wire shows it."""
    rows = [
        {"kind": h.kind, "by_kind": _kind(h.by), "by_id": _id(h.by), "to_value": h.to, "how": h.how} for h in history
    ]
    text: str = db.value(
        "SELECT record_correction(%s, %s, %s, %s, %s)",
        (
            orjson.dumps(_row(new, context)).decode(),
            context.live_id,
            context.first,
            orjson.dumps(rows).decode(),
            as_rows(jobs),
        ),
    )
    return text


def _row(new: NewCorrection, context: RunContext) -> dict[str, Any]:
    standing, subject, said = new.standing, context.subject, new.said
    return {
        "tenant_id": new.tenant_id,
        "id": new.id,
        "project_id": context.project.id,
        "run_id": new.run_id,
        "subject_kind": subject.kind,
        "subject_id": subject.id,
        "subject_version": subject.version,
        **_said_columns(said),
        "corrector_group_id": new.corrector_group_id,
        "expert": new.expert,
        "made_by_kind": new.made_by.kind,
        "made_by_id": new.made_by.id,
        "participant_id": new.participant_id,
        "participant_sha256": "\\x" + participant_digest(new.participant_id).hex(),
        "end_user": new.end_user,
        "status": standing.status,
        "sorted_to": standing.sorted_to,
        "sorted_by_kind": standing.sorted.by.kind if standing.sorted else None,
        "sorted_at": standing.sorted.at if standing.sorted else None,
        "fixed_how": standing.fixed_in.how if standing.fixed_in else None,
        "fixed_at": standing.fixed_in.at if standing.fixed_in else None,
        "created_at": context.at,
        "updated_at": context.at,
        "erased_participant": False,
        "decided_seq": context.accepted_seq,
        "version": 1,
    }


def _said_columns(said: Said) -> dict[str, Any]:
    calls = [{"tool": call.tool, "args": call.args} for call in said.should_call]
    items = [_item(item.key, item.pointer, item.rank, item.verdict) for item in said.items]
    return {
        "decisions": said.decisions,
        "should_call": json_text.dump(calls) if calls else None,
        "must_not_call": json_text.dump(list(said.must_not_call)) if said.must_not_call else None,
        "answer": said.answer,
        "should_say": said.should_say,
        "why": said.why,
        "items": json_text.dump(items) if items else None,
    }


def _item(key: str, pointer: str | None, rank: int | None, verdict: str) -> dict[str, Any]:
    shown = {"key": key, "pointer": pointer, "rank": rank, "verdict": verdict}
    return {name: value for name, value in shown.items() if value is not None}


def _kind(actor: Actor | None) -> str | None:
    return actor.kind if actor else None


def _id(actor: Actor | None) -> str | None:
    return actor.id if actor else None


@dataclass(frozen=True, slots=True)
class ShownCorrection:
    """A correction as the wire shows it, and what decides on showing it."""

    json: str
    version: int
    project: ProjectRef

    @property
    def etag(self) -> str:
        """Changes with the correction, and not with its copy's context."""
        return f'"{self.version}"'


_WITH_COPY = """
SELECT correction_with_copy_json(c, o), c.version, c.project_id, p.org_id
  FROM corrections c
  JOIN projects p ON p.tenant_id = c.tenant_id AND p.id = c.project_id
  LEFT JOIN copies o ON o.tenant_id = c.tenant_id AND o.run_id = c.run_id
 WHERE c.tenant_id = %s AND c.id = %s
"""


def with_copy(db: Db, tenant_id: str, correction_id: str) -> ShownCorrection | None:
    """The correction, live or not, with the copy of its run."""
    row = db.row(_WITH_COPY, (tenant_id, correction_id))
    return None if row is None else ShownCorrection(row[0], row[1], ProjectRef(row[2], row[3]))


_PROJECT = """
SELECT c.project_id, p.org_id
  FROM corrections c JOIN projects p ON p.tenant_id = c.tenant_id AND p.id = c.project_id
 WHERE c.tenant_id = %s AND c.id = %s
"""


def project_of(db: Db, tenant_id: str, correction_id: str) -> ProjectRef | None:
    """The project of the correction, for deciding who may see it."""
    row = db.row(_PROJECT, (tenant_id, correction_id))
    return None if row is None else ProjectRef(row[0], row[1])

"""Names and payloads of all tasks. A payload holds ids only; the row in the outbox is the job, the message a hint.

Nobody imports task code to start a task: a service writes an outbox row with one of these, the relay sends it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

CAPTURE = "corrigenda.capture"
SETTLE = "corrigenda.settle"
ROUTE = "corrigenda.route"
NOTIFY = "corrigenda.notify"
NOTIFY_MANY = "corrigenda.notify-many"
APPLY = "corrigenda.apply"
IMPROVE = "corrigenda.improve"
ERASE = "corrigenda.erase"
HOUSEKEEPING = "corrigenda.housekeeping"
RETENTION = "corrigenda.retention"
SWEEP = "corrigenda.sweep"

DEFAULT_QUEUE = "corrigenda"
IMPROVE_QUEUE = "improve"
CHORES_QUEUE = "corrigenda.chores"
"""Of the periodic tasks: they don't wait behind a long queue of jobs."""

QUEUE_OF: dict[str, str] = {IMPROVE: IMPROVE_QUEUE}
"""Celery queue of a task; ``DEFAULT_QUEUE`` for those not named."""

ANNOUNCED: frozenset[str] = frozenset({IMPROVE})
"""Jobs that are for somebody else: done when they were published."""

APART: frozenset[str] = frozenset({APPLY})
"""Jobs each of which is a message of its own, so that several workers share the work."""

Ids = Mapping[str, Any]
"""What a job is about: ids by name."""


@dataclass(frozen=True, slots=True)
class Job:
    """One outbox row to be: a task's name and the ids that it needs."""

    name: str
    ids: dict[str, str | int | list[str]] = field(default_factory=dict)


def capture(run_id: str) -> Job:
    """Add the replay context to the copy of ``run_id``."""
    return Job(CAPTURE, {"runId": run_id})


def settle(correction_id: str) -> Job:
    """Do the bookkeeping of the superseded ``correction_id``."""
    return Job(SETTLE, {"correctionId": correction_id})


def route(correction_id: str) -> Job:
    """Make the queues agree with ``correction_id`` as it stands now."""
    return Job(ROUTE, {"correctionId": correction_id})


def notify(event: str, correction_id: str, key: str) -> Job:
    """Tell whom ``event`` of ``correction_id`` concerns. ``key`` tells apart the times that it happened."""
    return Job(NOTIFY, {"event": event, "correctionId": correction_id, "key": key})


def notify_many(event: str, first: Mapping[str, str], total: int, key: str) -> Job:
    """Tell whom it concerns that ``event`` happened to ``total`` corrections of one subject in one project.

    ``first``: some of them, each with the key that ``notify`` would have. ``key`` tells the whole apart from others.
    """
    ids: dict[str, str | int | list[str]] = {"correctionIds": list(first), "keys": list(first.values())}
    return Job(NOTIFY_MANY, {"event": event, "total": total, "key": key, **ids})


def notify_parked(correction_id: str, work_item_id: str, queue: str, attempt: int, at: str) -> Job:
    """Tell whom it concerns that work on ``correction_id`` is parked, ``at`` a time of the wire."""
    key = f"{work_item_id} {at}"
    more: dict[str, str | int | list[str]] = {"workItemId": work_item_id, "queue": queue, "attempt": attempt, "at": at}
    return Job(NOTIFY, {"event": "work.parked", "correctionId": correction_id, "key": key, **more})


def improve(correction_ids: Sequence[str]) -> Job:
    """Announce that ``correction_ids`` wait for Improve."""
    return Job(IMPROVE, {"correctionIds": list(correction_ids)})


def apply(project_id: str, subject_kind: str, subject_id: str) -> Job:
    """Decide on the corrections of a subject in a project, up to the last event that was accepted there."""
    return Job(APPLY, {"projectId": project_id, "subjectKind": subject_kind, "subjectId": subject_id})


def erase(erasure_id: str) -> Job:
    """Do what is left to do of the erasure ``erasure_id``."""
    return Job(ERASE, {"erasureId": erasure_id})

"""Things that tests start from, put straight into the database. What a test is about goes through the API."""

from __future__ import annotations

import hashlib
import json
import uuid
from typing import Any

from sqlalchemy import Engine

from app.domain.model import Subject
from app.store.ids import new_id
from app.store.running import acquaint
from app.transaction import transaction

_RUN = """
INSERT INTO runs (tenant_id, id, project_id, subject_kind, subject_id, subject_version, status, conversation_id,
                  parent_run_id, node_id, scope, replay_of, started_at, arrived_at, ended_at, updated_at,
                  content_sha256, segments, input, output, messages, retrieved, recalled, session_approval, calls)
VALUES (%(tenant_id)s, %(id)s, %(project_id)s, %(subject_kind)s, %(subject_id)s, %(subject_version)s, %(status)s,
        %(conversation_id)s, %(parent_run_id)s, %(node_id)s, %(scope)s, %(replay_of)s, %(started_at)s,
        clock_timestamp(), CASE WHEN %(status)s IN ('completed', 'failed', 'cancelled') THEN clock_timestamp() END,
        clock_timestamp(), %(content_sha256)s, %(segments)s, %(input)s, %(output)s, %(messages)s, %(retrieved)s,
        %(recalled)s, %(session_approval)s, %(calls)s)
"""
_TEXTS = ("segments", "input", "output", "messages", "retrieved", "recalled", "session_approval", "calls")


def a_project(engine: Engine, tenant: str, project_id: str = "p", org_id: str | None = None) -> str:
    """A project; nothing happens if it is there."""
    with transaction(engine) as tx:
        tx.run(
            "INSERT INTO projects (tenant_id, id, org_id, created_at, updated_at)"
            " VALUES (%s, %s, %s, clock_timestamp(), clock_timestamp()) ON CONFLICT DO NOTHING",
            (tenant, project_id, org_id),
        )
    return project_id


def a_run(engine: Engine, tenant: str, **over: Any) -> str:
    """A completed agent run in project ``p`` (made if need be), and its subject known there. Columns by name;
    payloads as values, or as ``str`` when they are JSON text already. Gives the run's id."""
    values: dict[str, Any] = {
        "tenant_id": tenant, "id": f"run-{uuid.uuid4().hex[:12]}", "project_id": "p", "subject_kind": "agent",
        "subject_id": "support", "subject_version": "1.0.0", "status": "completed", "conversation_id": None,
        "parent_run_id": None, "node_id": None, "scope": None, "replay_of": None, "started_at": None,
        "input": {"message": "hello"}, "output": {"answer": "hi"}, "segments": None, "messages": None,
        "retrieved": None, "recalled": None, "session_approval": None, "calls": None,
    } | over  # fmt: skip
    for name in _TEXTS:
        if values[name] is not None and not isinstance(values[name], str):
            values[name] = json.dumps(values[name], ensure_ascii=False, separators=(",", ":"))
    values["content_sha256"] = hashlib.sha256(repr(values).encode()).digest()
    a_project(engine, tenant, values["project_id"])
    with transaction(engine) as tx:
        tx.run(_RUN, values)
        acquaint(tx, tenant, values["project_id"], Subject(values["subject_kind"], values["subject_id"]))
    return str(values["id"])


def a_correction(engine: Engine, tenant: str, **over: Any) -> str:
    """A correction of a run in project ``p``, open and sorted to Improve. Columns by name. Gives its id."""
    values: dict[str, Any] = {
        "tenant_id": tenant, "id": new_id(), "project_id": "p", "run_id": f"run-{uuid.uuid4().hex[:12]}",
        "subject_kind": "agent", "subject_id": "support", "subject_version": "1.0.0", "answer": "wrong",
        "made_by_kind": "user", "made_by_id": "ann", "participant_sha256": b"", "end_user": False, "status": "open",
        "sorted_to": "improve",
    } | over  # fmt: skip
    names, holders = ", ".join(values), ", ".join(f"%({name})s" for name in values)
    a_project(engine, tenant, values["project_id"])
    with transaction(engine) as tx:
        tx.run(
            f"INSERT INTO corrections ({names}, created_at, updated_at)"
            f" VALUES ({holders}, clock_timestamp(), clock_timestamp())",
            values,
        )
    return str(values["id"])


def an_owner(engine: Engine, tenant: str, *owners: str, subject_id: str = "support") -> None:
    """Makes the users ``owners`` the owners of an agent."""
    with transaction(engine) as tx:
        tx.run(
            "INSERT INTO subjects (tenant_id, kind, id) VALUES (%s, 'agent', %s) ON CONFLICT DO NOTHING",
            (tenant, subject_id),
        )
        for position, owner in enumerate(owners):
            tx.run(
                "INSERT INTO subject_owners (tenant_id, kind, id, position, owner_kind, owner_id)"
                " VALUES (%s, 'agent', %s, %s, 'user', %s)",
                (tenant, subject_id, position, owner),
            )


_MANY = """
WITH made AS (
    INSERT INTO corrections (tenant_id, id, project_id, run_id, subject_kind, subject_id, subject_version, decisions,
                             should_call, why, made_by_kind, made_by_id, participant_sha256, end_user, status,
                             sorted_to, sorted_by_kind, sorted_at, created_at, updated_at)
    SELECT %(tenant)s, 'many-' || n, 'p', 'many-' || n, 'agent', 'support', '1.0.0', 'wrong',
           '[{"tool":"refund","args":{"order":' || n || '}}]', repeat('because ', 20), 'user', 'ann', '', false,
           'with-owner', 'owner', 'rule', at, at, at
      FROM (SELECT n, date_trunc('milliseconds', clock_timestamp()) - n * interval '1 second' AS at
              FROM generate_series(1, %(count)s) n) numbered
    RETURNING *)
INSERT INTO copies (tenant_id, run_id, project_id, subject_kind, subject_id, subject_version, input, output,
                    captured_at, taken_at)
SELECT tenant_id, run_id, project_id, subject_kind, subject_id, subject_version, '{"message":"hello"}',
       '{"answer":"' || (SELECT string_agg(md5(run_id || i), '') FROM generate_series(1, %(size)s / 32) i) || '"}',
       created_at, created_at
  FROM made
"""


def many_corrected_runs(engine: Engine, tenant: str, count: int, output_bytes: int = 64) -> None:
    """``count`` corrected runs ``many-1`` (the newest) and so on in project ``p``: their corrections and copies."""
    a_project(engine, tenant)
    with transaction(engine) as tx:
        tx.run(_MANY, {"tenant": tenant, "count": count, "size": output_bytes})

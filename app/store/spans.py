"""Traces and their spans. Whoever changes one, or the run that is made of it, holds the run's lock."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from app.domain.joining import KnownTrace
from app.domain.model import KnownRun
from app.store.engine import Db

BATCH = 200
"""Traces that one batch of a periodic task takes in hand."""


@dataclass(frozen=True, slots=True)
class Trace:
    """A trace as far as it is a project's."""

    tenant_id: str
    project_id: str
    id: str

    @property
    def keys(self) -> dict[str, Any]:
        """As parameters: ``tenant``, ``project`` and ``trace``."""
        return {"tenant": self.tenant_id, "project": self.project_id, "trace": self.id}


def lock(db: Db, trace: Trace) -> None:
    """Wait for the lock of the trace's run: recording, capture, erasure and other batches wait meanwhile."""
    db.run("SELECT lock_run(%(tenant)s, %(trace)s)", trace.keys)


_KNOWN = """
SELECT t.content_sha256, t.patient, r.project_id, r.status, r.content_sha256, r.erased_at IS NOT NULL,
       EXISTS (SELECT FROM copies o WHERE o.tenant_id = %(tenant)s AND o.run_id = %(trace)s)
  FROM (VALUES (1)) one
  LEFT JOIN traces t ON t.tenant_id = %(tenant)s AND t.id = %(trace)s AND t.project_id = %(project)s
  LEFT JOIN runs r ON r.tenant_id = %(tenant)s AND r.id = %(trace)s
"""


def known(db: Db, trace: Trace) -> KnownTrace:
    """What there is of a trace that this transaction has locked."""
    row = db.row(_KNOWN, trace.keys)
    assert row is not None
    sha256, patient, run_project, status, run_sha256, erased, corrected = row
    run = None if run_project is None else KnownRun(run_project, status, bytes(run_sha256), erased)
    made = None if sha256 is None else bytes(sha256)
    return KnownTrace(made, patient is not False, run, corrected)


_THIS = "tenant_id = %(tenant)s AND trace_id = %(trace)s AND project_id = %(project)s"


def some(db: Db, trace: Trace, ids: Collection[str]) -> dict[str, str]:
    """Those of the spans ``ids`` that are kept of a trace: texts by id."""
    return dict(
        db.rows(f"SELECT id, content FROM spans WHERE {_THIS} AND id = ANY(%(ids)s)", trace.keys | {"ids": list(ids)})
    )


def of_trace(db: Db, trace: Trace) -> dict[str, str]:
    """The spans that are kept of a trace, texts by id; none while there is none of an agent or workflow."""
    acts = f"EXISTS (SELECT FROM spans WHERE {_THIS} AND acts)"
    return dict(db.rows(f"SELECT id, content FROM spans WHERE {_THIS} AND {acts}", trace.keys))


@dataclass(frozen=True, slots=True)
class NewSpan:
    """A span as it is to be kept."""

    content: str
    conversation_id: str | None
    acts: bool
    """Whether it is of an agent or workflow."""


_KEEP = """
WITH trace AS (
    INSERT INTO traces (tenant_id, id, project_id, arrived_at, changed_at)
    VALUES (%(tenant)s, %(trace)s, %(project)s, clock_timestamp(), clock_timestamp())
        ON CONFLICT (tenant_id, id, project_id) DO UPDATE SET changed_at = clock_timestamp())
INSERT INTO spans (tenant_id, trace_id, project_id, id, conversation_id, acts, content)
SELECT %(tenant)s, %(trace)s, %(project)s, s.id, s.conversation_id, s.acts, s.content
  FROM unnest(%(ids)s::text[], %(conversations)s::text[], %(acting)s::boolean[], %(contents)s::text[])
       AS s(id, conversation_id, acts, content)
    ON CONFLICT (tenant_id, trace_id, project_id, id)
    DO UPDATE SET conversation_id = excluded.conversation_id, acts = excluded.acts, content = excluded.content
"""


def keep(db: Db, trace: Trace, spans: Mapping[str, NewSpan]) -> None:
    """Keep spans of a trace, by id, in the place of those of the same ids."""
    columns = {
        "ids": list(spans),
        "conversations": [span.conversation_id for span in spans.values()],
        "acting": [span.acts for span in spans.values()],
        "contents": [span.content for span in spans.values()],
    }
    db.run(_KEEP, trace.keys | columns)


_MADE = """
UPDATE traces SET content_sha256 = %(sha256)s, waits = %(waits)s, patient = %(patient)s
 WHERE tenant_id = %(tenant)s AND id = %(trace)s AND project_id = %(project)s
"""


def made(db: Db, trace: Trace, sha256: bytes | None, *, waits: bool, patient: bool) -> None:
    """Note what run was made of the trace, if any; ``waits`` and ``patient`` as in ``otel_folding``."""
    db.run(_MADE, trace.keys | {"sha256": sha256, "waits": waits, "patient": patient})


_WAITING = """
WITH old AS MATERIALIZED (
    SELECT tenant_id, project_id, id FROM traces
     WHERE waits AND changed_at < now() - %(minutes)s * interval '1 minute' ORDER BY changed_at LIMIT 1)
SELECT tenant_id, project_id, id FROM old WHERE try_lock_run(tenant_id, id)
"""


def next_waiting(db: Db, minutes: int) -> Trace | None:
    """A trace, its run locked, that waits and of which nothing came for ``minutes``."""
    row = db.row(_WAITING, {"minutes": minutes})
    return None if row is None else Trace(*row)


_PURGE_LOOSE = """
WITH old AS MATERIALIZED (
    SELECT t.tenant_id, t.id, t.project_id FROM projects p CROSS JOIN LATERAL (
        SELECT t.tenant_id, t.id, t.project_id FROM traces t
         WHERE t.tenant_id = p.tenant_id AND t.project_id = p.id AND t.content_sha256 IS NULL
           AND t.changed_at < now() - p.retention_runs_days * interval '1 day'
         ORDER BY t.changed_at LIMIT %(batch)s) t
     WHERE p.retention_runs_days IS NOT NULL LIMIT %(batch)s
), locked AS MATERIALIZED (SELECT tenant_id, id, project_id FROM old WHERE try_lock_run(tenant_id, id))
DELETE FROM traces t USING locked l WHERE t.tenant_id = l.tenant_id AND t.id = l.id AND t.project_id = l.project_id
   AND t.content_sha256 IS NULL
"""


def purge_loose(db: Db) -> bool:
    """Delete traces that came to no run and of which nothing came for as long as their project keeps runs; true if
    there may be more."""
    return db.run(_PURGE_LOOSE, {"batch": BATCH}) == BATCH

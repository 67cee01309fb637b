"""``/v1/runs``."""

from __future__ import annotations

from app.api.ahead import ahead
from app.api.importing import Import, line_reader
from app.api.routes import NDJSON, Answer, Call, Routes, after, page
from app.api.schemas.base import created_id
from app.api.schemas.runs import ImportLine, RunLine, RunPage, RunQuery, RunShape, RunWanted, content_of
from app.domain.errors import (
    PermissionDenied,
    ProjectNotFound,
    RunAlreadyTerminal,
    RunErased,
    RunNotFound,
    RunProjectMismatch,
)
from app.domain.permission import may, reach
from app.services.ingest import put_run
from app.store import runs

routes = Routes("runs")


@routes.add(
    "PUT",
    "/v1/runs/{runId}",
    body=RunWanted,
    answers={200: RunShape, 201: RunShape},
    errors=(PermissionDenied, ProjectNotFound, RunAlreadyTerminal, RunProjectMismatch, RunErased),
    missing=RunNotFound,
)
def save_run(call: Call) -> Answer:
    """Make a run, or move it on.

    Needs write on its project. The body is the run's whole content and replaces what a run that hasn't ended has; the
    same content again changes nothing. The id is in the path alone.
    """
    run_id = created_id("runId", call.path["runId"])
    result = put_run(call.tx, call.caller, run_id, content_of(call.body))
    shown = runs.show(call.db, call.caller.tenant_id, run_id, hold=True)  # it may be kept under an idempotency key
    return Answer(201 if result == "created" else 200, shown or "")


@routes.add(
    "POST",
    "/v1/runs/import",
    body=RunLine,
    answers={200: ImportLine},
    streams=True,
    takes=(NDJSON,),
    media_types=(NDJSON,),
)
def import_runs(call: Call) -> Answer:
    """Import runs, one JSON a line.

    Each line is as the body of a PUT, with its `id`, and is taken or refused alone: a bad line stops nothing. The
    answer has a line for each line that isn't blank, as it is done, then one with the `totals`. The body limit holds
    for each line; an Idempotency-Key is ignored, for the same content again changes nothing anyway.
    """
    limit = call.service.settings.max_body_bytes
    length = call.headers.get("Content-Length", "")
    lines = line_reader(call.raw, int(length) if length.isdecimal() else None, limit)
    return Answer(200, ahead(Import(call.service.engine, call.caller, limit).answers(lines)), NDJSON)


@routes.add("GET", "/v1/runs", query=RunQuery, answers={200: RunPage})
def list_runs(call: Call) -> Answer:
    """List the runs that the caller can read, newest first, without their payloads."""
    limit = call.query["limit"]
    where = reach(call.caller, "read")
    rows = runs.newest(call.db, call.caller.tenant_id, where, call.query, limit + 1, after(call))
    return page(call, rows, limit, lambda row: row[0], lambda row: row[1])


@routes.add("GET", "/v1/runs/{runId}", answers={200: RunShape}, missing=RunNotFound)
def get_run(call: Call) -> Answer:
    """Fetch a run with its payloads, as they came."""
    tenant_id, run_id = call.caller.tenant_id, call.path["runId"]
    project = runs.project_of(call.db, tenant_id, run_id)
    shown = runs.show(call.db, tenant_id, run_id) if project and may(call.caller, "read", project) else None
    if shown is None:
        raise RunNotFound("There is no such run.")
    return Answer(200, shown)

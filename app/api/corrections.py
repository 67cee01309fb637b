"""``/v1/corrections``: record, list, fetch, and what happened to one."""

from __future__ import annotations

from dataclasses import replace

from app.api.preconditions import if_match, none_match
from app.api.routes import Answer, Call, Routes, after, page
from app.api.schemas.changes import ChangeWanted, RemovalWanted, change_of
from app.api.schemas.corrections import (
    CorrectionPage,
    CorrectionQuery,
    CorrectionShape,
    CorrectionWanted,
    CorrectionWithCopy,
    History,
)
from app.domain.errors import (
    CorrectionNotFound,
    CorrectionRemoved,
    CorrectionSuperseded,
    CorrectorGroupNotAllowed,
    CorrectorGroupNotApplicable,
    ItemNotFound,
    PermissionDenied,
    PreconditionFailed,
    RunErased,
    RunNotFinished,
    RunNotFound,
    ScopeInvalid,
)
from app.domain.filtering import filters_of
from app.domain.participants import denied, narrowed, seen
from app.domain.permission import may, reach
from app.domain.recording import said
from app.services.change import change, remove
from app.services.record import Wanted, record
from app.store import corrections, history, listings, participants
from app.store.corrections import ShownCorrection

routes = Routes("corrections")

IF_MATCH = "an ETag of the correction: nothing is changed unless it still is in that state"


@routes.add(
    "POST",
    "/v1/corrections",
    body=CorrectionWanted,
    answers={201: CorrectionShape},
    errors=(
        RunNotFound,
        PermissionDenied,
        RunErased,
        RunNotFinished,
        CorrectorGroupNotApplicable,
        CorrectorGroupNotAllowed,
        ItemNotFound,
    ),
    participants=CorrectionShape,
)
def record_correction(call: Call) -> Answer:
    """Correct a run.

    Records whether a finished run's decisions and answer were right, and what was right instead. It is sorted at save,
    and ends the correction that the same caller made before of the same run and participant. Needs write on the run's
    project. A participant's token records as that participant; their `participantId` may be left out.
    """
    body = call.body
    wanted = Wanted(body["run_id"], said(body), body.get("corrector_group_id"), body.get("participant_id"))
    return Answer(201, seen(record(call.tx, call.caller, wanted), call.caller))


@routes.add(
    "GET",
    "/v1/corrections",
    query=CorrectionQuery,
    answers={200: CorrectionPage},
    errors=(ScopeInvalid,),
    participants=CorrectionPage,
)
def list_corrections(call: Call) -> Answer:
    """List corrections, newest first.

    Superseded ones are never listed, removed ones only when status names removed. Each one comes back only when the
    caller may read its project. A participant's token lists that participant's correction of its run.
    """
    filters = narrowed(filters_of(call.query, call.caller.principal), call.caller)
    limit = call.query["limit"]
    rows = listings.newest(call.db, call.caller.tenant_id, filters, reach(call.caller, "read"), limit + 1, after(call))
    return page(call, rows, limit, lambda row: row[:2], lambda row: seen(row[2], call.caller))


@routes.add(
    "GET",
    "/v1/corrections/{correctionId}",
    answers={200: CorrectionWithCopy, 304: None},
    missing=CorrectionNotFound,
    headers={"If-None-Match": "an ETag of the correction: the answer is 304 while it is in that state"},
    participants=CorrectionShape,
)
def get_correction(call: Call) -> Answer:
    """Fetch a correction, live or not, with the stored copy of its run.

    The ETag changes with the correction, not when the context of its copy arrives. A participant's token reads that
    participant's correction of its run, without the copy and what the staff added; any other is 403.
    """
    shown = _shown(call)
    if not none_match(call.headers, shown.etag):
        return Answer(304, headers={"ETag": shown.etag})
    return Answer(200, shown.json, headers={"ETag": shown.etag})


def _shown(call: Call) -> ShownCorrection:
    caller, correction_id = call.caller, call.path["correctionId"]
    if caller.participant is None:
        shown = corrections.with_copy(call.db, caller.tenant_id, correction_id)
    else:
        shown = participants.correction(call.db, caller, caller.participant, correction_id)
    if shown is None or not may(caller, "read", shown.project):
        raise CorrectionNotFound("There is no such correction.") if caller.participant is None else denied()
    return replace(shown, json=seen(shown.json, caller))


@routes.add("GET", "/v1/corrections/{correctionId}/history", answers={200: History}, missing=CorrectionNotFound)
def correction_history(call: Call) -> Answer:
    """What happened to a correction, oldest first."""
    tenant_id, correction_id = call.caller.tenant_id, call.path["correctionId"]
    project = corrections.project_of(call.db, tenant_id, correction_id)
    if project is None or not may(call.caller, "read", project):
        raise CorrectionNotFound("There is no such correction.")
    return Answer(200, f'{{"data":[{history.show(call.db, tenant_id, correction_id)}]}}')


@routes.add(
    "PATCH",
    "/v1/corrections/{correctionId}",
    body=ChangeWanted,
    answers={200: CorrectionShape},
    errors=(PermissionDenied, CorrectionSuperseded, CorrectionRemoved, PreconditionFailed),
    missing=CorrectionNotFound,
    headers={"If-Match": IF_MATCH},
)
def change_correction(call: Call) -> Answer:
    """Re-sort a correction, or change its status, link or note.

    A status that is given wins over what a re-sort implies, and clears `fixedIn` and `reopenedIn`. Needs write on the
    correction's project.
    """
    asked = change_of(call.body)
    shown = change(call.tx, call.caller, call.path["correctionId"], asked, if_match(call.headers))
    return Answer(200, shown.json, headers={"ETag": shown.etag})


@routes.add(
    "POST",
    "/v1/corrections/{correctionId}/remove",
    body=RemovalWanted,
    body_required=False,
    answers={200: CorrectionShape},
    errors=(PermissionDenied, CorrectionSuperseded, PreconditionFailed),
    missing=CorrectionNotFound,
    headers={"If-Match": IF_MATCH},
)
def remove_correction(call: Call) -> Answer:
    """Remove a correction, for good. Doing it twice answers the same. Needs write on its project."""
    note = call.body.get("note")
    shown = remove(call.tx, call.caller, call.path["correctionId"], note, if_match(call.headers))
    return Answer(200, shown.json, headers={"ETag": shown.etag})

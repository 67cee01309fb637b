"""What projects run: ``/v1/deploys``, and a project's ``pins``, ``unpins`` and ``running``."""

from __future__ import annotations

from typing import Any

from app.api.routes import Answer, Call, Routes, answer
from app.api.schemas.running import (
    AcceptedShape,
    DeployWanted,
    PinWanted,
    RunningHistory,
    RunningList,
    UnpinWanted,
)
from app.domain import times
from app.domain.errors import NotPinned, PermissionDenied, ProjectNotFound
from app.domain.model import Subject
from app.domain.running import Current
from app.services.deploy import Accepted, Resolves, deploy, pin, unpin
from app.services.projects import project_for
from app.store import running

routes = Routes("running")


@routes.add("POST", "/v1/deploys", body=DeployWanted, answers={202: AcceptedShape}, errors=(PermissionDenied,))
def post_deploy(call: Call) -> Answer:
    """Deploy a version of a subject.

    Latest moves to it in every project that has no pin of the subject, unless `at` is older than that of the deploy
    which made Latest what it is. Corrections that `resolves` names, and that fit it now, are fixed where no test run
    says otherwise. Needs write on the tenant.
    """
    subject = _subject(call)
    body = call.body
    accepted = deploy(call.tx, call.caller, subject, body["how"], body.get("resolves", Resolves()), body.get("at"))
    return _accepted(subject, accepted, subject.version)


@routes.add(
    "POST",
    "/v1/projects/{projectId}/pins",
    body=PinWanted,
    answers={202: AcceptedShape},
    errors=(PermissionDenied,),
    missing=ProjectNotFound,
)
def post_pin(call: Call) -> Answer:
    """Pin a project to a version of a subject. Needs write on the project."""
    subject, resolves = _subject(call), call.body.get("resolves", Resolves())
    accepted = pin(call.tx, call.caller, call.path["projectId"], subject, resolves)
    return _accepted(subject, accepted, subject.version)


@routes.add(
    "POST",
    "/v1/projects/{projectId}/unpins",
    body=UnpinWanted,
    answers={202: AcceptedShape},
    errors=(PermissionDenied, NotPinned),
    missing=ProjectNotFound,
)
def post_unpin(call: Call) -> Answer:
    """Let a project follow Latest of a subject again. Needs write on the project."""
    subject, project_id = _subject(call), call.path["projectId"]
    accepted = unpin(call.tx, call.caller, project_id, subject)
    return _accepted(subject, accepted, accepted.changed[project_id].version)


@routes.add("GET", "/v1/projects/{projectId}/running", answers={200: RunningList}, missing=ProjectNotFound)
def get_running(call: Call) -> Answer:
    """What a project runs, by subject."""
    project = project_for(call.db, call.caller, call.path["projectId"], "read")
    return Answer(200, running.show(call.db, call.caller.tenant_id, project.id))


@routes.add("GET", "/v1/projects/{projectId}/running/history", answers={200: RunningHistory}, missing=ProjectNotFound)
def get_running_history(call: Call) -> Answer:
    """What a project ran, newest first."""
    project = project_for(call.db, call.caller, call.path["projectId"], "read")
    return Answer(200, f'{{"data":{running.history(call.db, call.caller.tenant_id, project.id)}}}')


def _subject(call: Call) -> Subject:
    subject = call.body["subject"]
    return Subject(subject["kind"], subject["id"], call.body.get("version"))


def _accepted(subject: Subject, accepted: Accepted, version: str | None) -> Answer:
    at = times.wire(accepted.at)
    shown = {
        "id": accepted.id,
        "subject": {"kind": subject.kind, "id": subject.id},
        "version": version,
        "changed": [_changed(project_id, now, at) for project_id, now in accepted.changed.items()],
    }
    return answer({name: value for name, value in shown.items() if value is not None}, 202)


def _changed(project_id: str, now: Current, at: str) -> dict[str, Any]:
    by = {"kind": now.by.kind, "id": now.by.id} if now.by else None
    shown = {"projectId": project_id, "version": now.version, "how": now.how, "by": by, "at": at}
    return {name: value for name, value in shown.items() if value is not None}

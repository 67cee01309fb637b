"""``/v1/projects``."""

from __future__ import annotations

import orjson

from app.api.routes import Answer, Call, Routes, after, answer, page
from app.api.schemas.base import PageQuery, created_id
from app.api.schemas.projects import ProjectPage, ProjectShape, ProjectWanted
from app.domain.errors import PermissionDenied, ProjectNotFound
from app.domain.permission import reach
from app.services.projects import project_for, put_project
from app.store import projects

routes = Routes("projects")


@routes.add(
    "PUT",
    "/v1/projects/{projectId}",
    body=ProjectWanted,
    body_required=False,
    answers={200: ProjectShape, 201: ProjectShape},
    errors=(PermissionDenied,),
    missing=ProjectNotFound,
)
def save_project(call: Call) -> Answer:
    """Make a project, or change it.

    Needs admin on the tenant. Fields that are left out stay as they are; `null` clears one.
    """
    project_id = created_id("projectId", call.path["projectId"])
    made = put_project(call.tx, call.caller, project_id, call.body)
    return answer(projects.show(call.db, call.caller.tenant_id, project_id), 201 if made else 200)


@routes.add("GET", "/v1/projects", query=PageQuery, answers={200: ProjectPage})
def list_projects(call: Call) -> Answer:
    """List the projects that the caller can read, newest first."""
    limit = call.query["limit"]
    rows = projects.newest(call.db, call.caller.tenant_id, reach(call.caller, "read"), limit + 1, after(call))
    return page(call, rows, limit, lambda row: row[0], lambda row: orjson.dumps(row[1]).decode())


@routes.add("GET", "/v1/projects/{projectId}", answers={200: ProjectShape}, missing=ProjectNotFound)
def get_project(call: Call) -> Answer:
    """Fetch a project."""
    project = project_for(call.db, call.caller, call.path["projectId"], "read")
    return answer(projects.show(call.db, call.caller.tenant_id, project.id))

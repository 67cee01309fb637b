"""``/v1/agents`` and ``/v1/flows``."""

from __future__ import annotations

from typing import Any

from app.api.routes import Answer, Call, Routes, after, page
from app.api.schemas.base import PageQuery, created_name
from app.api.schemas.subjects import RegisteredSubjectShape, SubjectPage, SubjectWanted
from app.domain.errors import AgentNotFound, FlowNotFound, NotFound, PermissionDenied
from app.domain.model import SubjectKind
from app.domain.permission import reach
from app.services.register import put_subject
from app.store import subjects

agents = Routes("agents")
flows = Routes("flows")

_PUT: dict[str, Any] = {
    "body": SubjectWanted,
    "body_required": False,
    "answers": {200: RegisteredSubjectShape, 201: RegisteredSubjectShape},
    "errors": (PermissionDenied,),
}


@agents.add("PUT", "/v1/agents/{agentId}", missing=AgentNotFound, **_PUT)
def put_agent(call: Call) -> Answer:
    """Name an agent and its owners.

    Needs admin on the tenant. Fields that are left out stay as they are; `null` clears one.
    """
    return _put(call, "agent", created_name("agentId", call.path["agentId"]))


@agents.add("GET", "/v1/agents", query=PageQuery, answers={200: SubjectPage})
def list_agents(call: Call) -> Answer:
    """List agents, newest first: those that were put here, and those that a project knows which the caller can read."""
    return _list(call, "agent")


@agents.add("GET", "/v1/agents/{agentId}", answers={200: RegisteredSubjectShape}, missing=AgentNotFound)
def get_agent(call: Call) -> Answer:
    """Fetch an agent."""
    return _get(call, "agent", call.path["agentId"], AgentNotFound("There is no such agent."))


@flows.add("PUT", "/v1/flows/{flowId}", missing=FlowNotFound, **_PUT)
def put_flow(call: Call) -> Answer:
    """Name a flow and its owners.

    Needs admin on the tenant. Fields that are left out stay as they are; `null` clears one.
    """
    return _put(call, "flow", created_name("flowId", call.path["flowId"]))


@flows.add("GET", "/v1/flows", query=PageQuery, answers={200: SubjectPage})
def list_flows(call: Call) -> Answer:
    """List flows, newest first: those that were put here, and those that a project knows which the caller can read."""
    return _list(call, "flow")


@flows.add("GET", "/v1/flows/{flowId}", answers={200: RegisteredSubjectShape}, missing=FlowNotFound)
def get_flow(call: Call) -> Answer:
    """Fetch a flow."""
    return _get(call, "flow", call.path["flowId"], FlowNotFound("There is no such flow."))


def _put(call: Call, kind: SubjectKind, subject_id: str) -> Answer:
    made = put_subject(call.tx, call.caller, kind, subject_id, call.body)
    shown = subjects.show(call.db, call.caller.tenant_id, reach(call.caller, "read"), kind, subject_id)
    return Answer(201 if made else 200, shown or "")


def _list(call: Call, kind: SubjectKind) -> Answer:
    limit, where = call.query["limit"], reach(call.caller, "read")
    rows = subjects.newest(call.db, call.caller.tenant_id, where, kind, limit + 1, after(call))
    return page(call, rows, limit, lambda row: row[0], lambda row: row[1])


def _get(call: Call, kind: SubjectKind, subject_id: str, missing: NotFound) -> Answer:
    shown = subjects.show(call.db, call.caller.tenant_id, reach(call.caller, "read"), kind, subject_id)
    if shown is None:
        raise missing
    return Answer(200, shown)

"""Who may do what: one row for every operation. ``test_matrix.py`` says what to add for one that has none.

Callers of the columns, each with a good token: ``other`` is another tenant's admin, ``nobody`` a member without grants,
``read``, ``write`` and ``admin`` members with that grant on project ``p``, ``tenant`` an admin of the tenant,
``participant`` an end user with a token for ``World.run_id``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any
from uuid import uuid4

from sqlalchemy import Engine

from app.services import route
from app.transaction import transaction
from tests.client import Client
from tests.factories import a_project, a_run

CALLERS = ("other", "nobody", "read", "write", "admin", "tenant")


class World:
    """A tenant with one of everything, all in project ``p``; each thing is made when it is first asked for."""

    def __init__(self, engine: Engine, tenant_id: str, admin: Client) -> None:
        self._engine, self._tenant_id, self._admin = engine, tenant_id, admin
        self.lease_token = ""
        a_project(engine, tenant_id)

    @cached_property
    def run_id(self) -> str:
        return a_run(self._engine, self._tenant_id)

    @cached_property
    def agent_id(self) -> str:
        assert self.run_id
        return "support"

    @cached_property
    def flow_id(self) -> str:
        a_run(self._engine, self._tenant_id, subject_kind="flow", subject_id="triage")
        return "triage"

    @cached_property
    def correction_id(self) -> str:
        return self._made("/v1/corrections", {"runId": self.run_id, "decisions": "right"})

    @cached_property
    def group_id(self) -> str:
        scope = {"kind": "project", "projectId": "p"}
        return self._made("/v1/corrector-groups", {"name": "g", "weight": 1, "scope": scope})

    @cached_property
    def token_id(self) -> str:
        return self._made("/v1/tokens", {"name": "t", "role": "member"})

    @cached_property
    def test_run_id(self) -> str:
        return self._made("/v1/test-runs", a_test_run_body(self))

    @cached_property
    def erasure_id(self) -> str:
        return self._made("/v1/erasures", {"runId": self.run_id})

    @cached_property
    def endpoint_id(self) -> str:
        return self._made("/v1/notification-endpoints", an_endpoint_body(self))

    @cached_property
    def delivery_id(self) -> str:
        return self._made(f"/v1/notification-endpoints/{self.endpoint_id}/test", None)

    def leased_item(self) -> str:
        """A work item that the admin has just leased; ``lease_token`` is its token."""
        run = a_run(self._engine, self._tenant_id)
        correction = self._made("/v1/corrections", {"runId": run, "answer": "wrong", "why": "no"})
        with transaction(self._engine) as tx:
            route.sync(tx, self._tenant_id, [correction])
        items = self._admin.post("/v1/work/claims", {"queue": "improve", "limit": 100}).json["items"]
        (item,) = [item for item in items if item["correction"]["id"] == correction]
        self.lease_token = item["leaseToken"]
        return str(item["workItemId"])

    def parameter(self, name: str) -> str:
        """A path parameter's value."""
        plain = {
            "projectId": "p",
            "agentId": "support",
            "flowId": "triage",
            "asset": "start.js",
            "notificationId": "none",
        }
        known = {
            "runId": lambda: self.run_id,
            "correctionId": lambda: self.correction_id,
            "groupId": lambda: self.group_id,
            "tokenId": lambda: self.token_id,
            "testRunId": lambda: self.test_run_id,
            "erasureId": lambda: self.erasure_id,
            "endpointId": lambda: self.endpoint_id,
            "deliveryId": lambda: self.delivery_id,
            "workItemId": self.leased_item,
        }
        return plain[name] if name in plain else known[name]()

    def _made(self, path: str, body: Any) -> str:
        answer = self._admin.post(path, body)
        assert answer.status_code in (200, 201, 202), answer.text
        return str(answer.json["id"])


@dataclass(frozen=True)
class Row:
    """What each caller is answered: a status, or a status and an error's code."""

    other: str
    nobody: str
    read: str
    write: str
    admin: str
    tenant: str
    body: Callable[[World], Any] | None = None
    query: str = ""
    path: dict[str, Callable[[World], str]] = field(default_factory=dict)
    participant: str = "403 permission-denied"

    def expected(self) -> dict[str, str]:
        return {caller: getattr(self, caller) for caller in CALLERS}


DENIED = "403 permission-denied"


def everybody(answer: str = "200", **more: Any) -> Row:
    """The same for all, each in its own tenant: lists that hold what the caller may read, and oneself."""
    return Row(*[answer] * 6, **more)


def readers(missing: str, answer: str = "200", **more: Any) -> Row:
    """Needs read on ``p``: who lacks it doesn't learn that there is anything."""
    return Row(missing, missing, answer, answer, answer, answer, **more)


def writers(missing: str, answer: str = "200", **more: Any) -> Row:
    """Needs write on ``p``; who may read it is told so."""
    return Row(missing, missing, DENIED, answer, answer, answer, **more)


def admins(missing: str, answer: str = "200", **more: Any) -> Row:
    """Needs admin on ``p``; who may read it is told so."""
    return Row(missing, missing, DENIED, DENIED, answer, answer, **more)


def tenant_admins(other: str, answer: str = "200", **more: Any) -> Row:
    """Needs a permission on the whole tenant. ``other`` is what another tenant's admin is answered."""
    return Row(other, DENIED, DENIED, DENIED, DENIED, answer, **more)


def a_run_body(_: World) -> Any:
    subject = {"kind": "agent", "id": "support", "version": "1"}
    return {"projectId": "p", "subject": subject, "status": "running", "input": 1}


def a_trace_body(_: World) -> Any:
    project = {"key": "corrigenda.project", "value": {"stringValue": "p"}}
    span = {"traceId": uuid4().hex, "spanId": "00f067aa0ba902b7", "name": "chat"}
    return {"resourceSpans": [{"resource": {"attributes": [project]}, "scopeSpans": [{"spans": [span]}]}]}


def a_group_body(_: World) -> Any:
    return {"name": uuid4().hex, "weight": 1, "scope": {"kind": "project", "projectId": "p"}}


def a_pin_body(_: World) -> Any:
    return {"subject": {"kind": "agent", "id": "support"}, "version": "1"}


def a_test_run_body(world: World) -> Any:
    subject = {"kind": "agent", "id": "support", "version": "1.0.0"}
    results = [{"correctionId": world.correction_id, "verdict": "right"}]
    return {"projectId": "p", "subject": subject, "results": results}


def an_endpoint_body(_: World) -> Any:
    scope = {"kind": "project", "projectId": "p"}
    return {"kind": "email", "target": "ann@example.com", "events": ["correction.fixed"], "scope": scope}


NO_ITEM = "404 work-item-not-found"
NO_ENDPOINT = "404 notification-endpoint-not-found"

ROWS: dict[str, Row] = {
    # Corrections
    "POST /v1/corrections": Row(
        "404 run-not-found", DENIED, DENIED, "201", "201", "201",
        body=lambda world: {"runId": world.run_id, "decisions": "right"},
        participant="201",
    ),
    "GET /v1/corrections": everybody(participant="200"),
    "GET /v1/corrections/stats": everybody(),
    "GET /v1/corrections/export": everybody(query="format=jsonl"),
    "GET /v1/corrections/{correctionId}": readers("404 correction-not-found"),
    "GET /v1/corrections/{correctionId}/history": readers("404 correction-not-found"),
    "PATCH /v1/corrections/{correctionId}": writers("404 correction-not-found", body=lambda _: {"note": "seen"}),
    "POST /v1/corrections/{correctionId}/remove": writers("404 correction-not-found"),
    # Corrector groups
    "POST /v1/corrector-groups": admins("404 project-not-found", "201", body=a_group_body),
    "GET /v1/corrector-groups": everybody(),
    "GET /v1/corrector-groups/{groupId}": readers("404 corrector-group-not-found"),
    "PATCH /v1/corrector-groups/{groupId}": admins("404 corrector-group-not-found", body=lambda _: {"weight": 2}),
    "POST /v1/corrector-groups/{groupId}/unregister": admins("404 corrector-group-not-found"),
    # Runs and projects
    "PUT /v1/runs/{runId}": writers(
        "404 project-not-found", "201", body=a_run_body, path={"runId": lambda _: uuid4().hex}
    ),
    "POST /v1/runs/import": everybody(),
    "POST /otlp/v1/traces": writers("404 project-not-found", body=a_trace_body),
    "GET /v1/runs": everybody(),
    "GET /v1/runs/{runId}": readers("404 run-not-found"),
    "PUT /v1/projects/{projectId}": tenant_admins("201", body=lambda _: {"name": "shop"}),
    "GET /v1/projects": everybody(),
    "GET /v1/projects/{projectId}": readers("404 project-not-found"),
    "PUT /v1/agents/{agentId}": tenant_admins("201", "201", body=lambda _: {"name": "Support"}),
    "GET /v1/agents": everybody(),
    "GET /v1/agents/{agentId}": readers("404 agent-not-found", path={"agentId": lambda world: world.agent_id}),
    "PUT /v1/flows/{flowId}": tenant_admins("201", "201", body=lambda _: {"name": "Triage"}),
    "GET /v1/flows": everybody(),
    "GET /v1/flows/{flowId}": readers("404 flow-not-found", path={"flowId": lambda world: world.flow_id}),
    # What a project runs
    "POST /v1/deploys": tenant_admins("202", "202", body=a_pin_body),
    "POST /v1/projects/{projectId}/pins": writers("404 project-not-found", "202", body=a_pin_body),
    "POST /v1/projects/{projectId}/unpins": writers(
        "404 project-not-found", "409 not-pinned", body=lambda _: {"subject": {"kind": "agent", "id": "support"}}
    ),
    "GET /v1/projects/{projectId}/running": readers("404 project-not-found"),
    "GET /v1/projects/{projectId}/running/history": readers("404 project-not-found"),
    # Work
    "GET /v1/work": everybody(),
    "GET /v1/work/stats": everybody(),
    "POST /v1/work/claims": everybody(body=lambda _: {"queue": "owner"}),
    "POST /v1/work/{workItemId}/renew": writers(
        NO_ITEM, body=lambda world: {"leaseToken": world.lease_token, "leaseSeconds": 60}
    ),
    "POST /v1/work/{workItemId}/release": writers(NO_ITEM, body=lambda world: {"leaseToken": world.lease_token}),
    "POST /v1/work/{workItemId}/complete": writers(
        NO_ITEM, body=lambda world: {"leaseToken": world.lease_token, "outcome": {"kind": "wont-fix"}}
    ),
    "POST /v1/work/{workItemId}/requeue": writers(NO_ITEM),
    # Test runs and test sets
    "POST /v1/test-runs": writers("404 project-not-found", "202", body=a_test_run_body),
    "GET /v1/test-runs": everybody(),
    "GET /v1/test-runs/{testRunId}": readers("404 test-run-not-found"),
    "GET /v1/test-sets": everybody(),
    "GET /v1/test-sets/export": everybody(query="format=jsonl"),
    # Notices: each caller's own alone
    "GET /v1/notifications": everybody(),
    "POST /v1/notifications/{notificationId}/read": everybody("404 notification-not-found"),
    "POST /v1/notification-endpoints": admins("404 project-not-found", "201", body=an_endpoint_body),
    "GET /v1/notification-endpoints": everybody(),
    "GET /v1/notification-endpoints/{endpointId}": admins(NO_ENDPOINT),
    "PATCH /v1/notification-endpoints/{endpointId}": admins(NO_ENDPOINT, body=lambda _: {"digestSeconds": 5}),
    "POST /v1/notification-endpoints/{endpointId}/unregister": admins(NO_ENDPOINT),
    "POST /v1/notification-endpoints/{endpointId}/test": admins(NO_ENDPOINT, "202"),
    "POST /v1/notification-endpoints/{endpointId}/rotate-secret": admins(NO_ENDPOINT, "400 bad-input"),
    "GET /v1/notification-endpoints/{endpointId}/deliveries": admins(NO_ENDPOINT),
    "POST /v1/notification-endpoints/{endpointId}/deliveries/{deliveryId}/redeliver": admins(NO_ENDPOINT, "202"),
    # Tokens
    "GET /v1/me": everybody(),
    "POST /v1/tokens": tenant_admins("201", "201", body=lambda _: {"name": "n", "role": "member"}),
    "GET /v1/tokens": tenant_admins("200"),
    "GET /v1/tokens/{tokenId}": tenant_admins("404 token-not-found"),
    "POST /v1/tokens/{tokenId}/revoke": tenant_admins("404 token-not-found"),
    # Erasure
    "POST /v1/erasures": admins("404 run-not-found", "202", body=lambda world: {"runId": world.run_id}),
    "GET /v1/erasures/{erasureId}": Row(*["404 erasure-not-found"] * 4, "200", "200"),
    "POST /v1/participant-tokens": Row(
        "404 run-not-found", DENIED, DENIED, "201", "201", "201",
        body=lambda world: {"runId": world.run_id, "participantId": "visitor", "ttlSeconds": 60},
    ),
    # Operation
    "GET /healthz": everybody(),
    "GET /readyz": everybody(),
    "GET /metrics": everybody(),
    "GET /v1/openapi.json": everybody(),
    "GET /docs": everybody(),
    "GET /static/corrigenda.js": everybody(),
    "GET /docs/{asset}": everybody(),
}  # fmt: skip

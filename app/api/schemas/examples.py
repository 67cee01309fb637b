"""A body for each operation that takes one, to start from in ``/docs``. Tests hold each against its shape."""

from __future__ import annotations

from typing import Any

from app.api.schemas.base import Shape
from app.api.schemas.changes import ChangeWanted, RemovalWanted
from app.api.schemas.claims import ClaimWanted, CompletionWanted, ReleaseWanted, RenewalWanted
from app.api.schemas.corrections import CorrectionWanted
from app.api.schemas.endpoints import EndpointChange, EndpointWanted
from app.api.schemas.erasures import ErasureWanted
from app.api.schemas.groups import GroupChange, GroupWanted
from app.api.schemas.otlp import ExportTraceServiceRequestShape
from app.api.schemas.projects import ProjectWanted
from app.api.schemas.running import DeployWanted, PinWanted, UnpinWanted
from app.api.schemas.runs import RunLine, RunWanted
from app.api.schemas.subjects import SubjectWanted
from app.api.schemas.test_runs import TestRunWanted
from app.api.schemas.tokens import ParticipantTokenWanted, TokenWanted

_AGENT = {"kind": "agent", "id": "support"}
_AGENT_VERSION = _AGENT | {"version": "1.4.0"}
_CALL = {"tool": "cancel_order", "args": {"orderId": "A-1001"}}
_RUN = {
    "projectId": "shop",
    "subject": _AGENT_VERSION,
    "status": "completed",
    "input": {"message": "Please cancel order A-1001."},
    "output": {"answer": "Your refund is on its way."},
    "conversationId": "chat-17",
    "calls": [{"toolId": "refund_order", "arguments": {"orderId": "A-1001"}, "result": {"ok": True}}],
}


def _attributes(**values: str) -> list[dict[str, Any]]:
    return [{"key": key.replace("__", "."), "value": {"stringValue": value}} for key, value in values.items()]


_RESOURCE_SPANS = {
    "resource": {"attributes": _attributes(corrigenda__project="shop", service__version="1.4.0")},
    "scopeSpans": [
        {
            "spans": [
                {
                    "traceId": "5b8efff798038103d269b633813fc60c",
                    "spanId": "eee19b7ec3c1b174",
                    "name": "invoke_agent support",
                    "startTimeUnixNano": "1796040000000000000",
                    "endTimeUnixNano": "1796040002500000000",
                    "attributes": _attributes(
                        gen_ai__operation__name="invoke_agent",
                        gen_ai__agent__name="support",
                        gen_ai__conversation__id="chat-17",
                    ),
                }
            ]
        }
    ],
}
EXAMPLES: dict[type[Shape], dict[str, Any]] = {
    CorrectionWanted: {
        "runId": "run-1",
        "decisions": "wrong",
        "shouldCall": [_CALL],
        "mustNotCall": ["refund_order"],
        "answer": "wrong",
        "shouldSay": "Your order is cancelled.",
        "why": "Cancelling was asked for, not a refund.",
    },
    ChangeWanted: {"sortedTo": "developer", "reason": "The tool itself is at fault.", "note": "Seen by Ann."},
    RemovalWanted: {"note": "Recorded by mistake."},
    RunWanted: _RUN,
    RunLine: {"id": "run-1"} | _RUN,
    ExportTraceServiceRequestShape: {"resourceSpans": [_RESOURCE_SPANS]},
    GroupWanted: {
        "name": "support leads",
        "weight": 3,
        "scope": {"kind": "project", "projectId": "shop"},
        "assertableBy": {"minReviewerRole": "senior", "principalKinds": ["user"]},
    },
    GroupChange: {"weight": 2},
    ProjectWanted: {"name": "Shop", "retention": {"runsDays": 90}},
    SubjectWanted: {"name": "Support agent", "owners": [{"kind": "user", "id": "ann"}]},
    DeployWanted: {"subject": _AGENT, "version": "1.5.0"},
    PinWanted: {"subject": _AGENT, "version": "1.4.0"},
    UnpinWanted: {"subject": _AGENT},
    TestRunWanted: {
        "projectId": "shop",
        "subject": _AGENT | {"version": "1.5.0"},
        "results": [
            {"correctionId": "correction-1", "verdict": "right"},
            {"correctionId": "correction-2", "observed": {"calls": [_CALL]}, "answerVerdict": "right"},
        ],
        "source": "nightly",
    },
    ClaimWanted: {"queue": "improve", "projectId": "shop", "limit": 5, "leaseSeconds": 300},
    RenewalWanted: {"leaseToken": "…", "leaseSeconds": 300},
    ReleaseWanted: {"leaseToken": "…", "delaySeconds": 60, "reason": "The model is overloaded."},
    CompletionWanted: {
        "leaseToken": "…",
        "outcome": {"kind": "being-fixed", "link": {"kind": "improve-run", "id": "ir-7"}},
    },
    TokenWanted: {
        "name": "support desk",
        "role": "member",
        "grants": [{"scopeKind": "project", "scopeId": "shop", "permission": "write"}],
    },
    ParticipantTokenWanted: {"runId": "run-1", "participantId": "visitor-7", "ttlSeconds": 3600},
    EndpointWanted: {
        "kind": "webhook",
        "target": "https://example.com/hooks/corrigenda",
        "events": ["correction.with-owner", "correction.reopened"],
        "scope": {"kind": "project", "projectId": "shop"},
    },
    EndpointChange: {"digestSeconds": 300},
    ErasureWanted: {"participantId": "customer-4711"},
}
"""By shape: JSON that it takes."""

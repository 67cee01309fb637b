"""Shapes of runs."""

from __future__ import annotations

from typing import Any

from marshmallow import ValidationError, fields, validates_schema

from app.api.schemas.base import (
    Flag,
    Instant,
    JsonSchema,
    JsonText,
    ListOf,
    Nested,
    OneOf,
    PageQuery,
    PageShape,
    Several,
    Shape,
    Text,
    Whole,
    name_id,
    plain_id,
)
from app.api.schemas.kept import Fingerprinted, KeptListOf
from app.domain import json_text
from app.domain.model import RunContent, Subject

STATUSES = ("running", "suspended", "completed", "failed", "cancelled")


class SubjectShape(Shape):
    """What a run ran: an agent at a version, or a flow at a version."""

    kind = OneOf("agent", "flow", required=True)
    id = name_id(required=True)
    version = name_id(required=True)


class SegmentShape(Shape):
    key = Text(1, 64, pattern=r"^[a-z][a-z0-9_-]{0,63}$", required=True)
    value = Text(1, 256, required=True)


class SessionApprovalShape(Shape):
    """The reviewer's decision at the session approval gate."""

    approved = Flag(required=True)
    rationale = Text()


class Env(fields.Field[dict[str, str]]):
    """A JSON object of strings."""

    _text = Text()

    def _deserialize(self, value: Any, attr: str | None, data: Any, **more: Any) -> dict[str, str]:
        if not isinstance(value, dict):
            raise ValidationError("must be a JSON object of strings")
        for name, held in value.items():
            try:
                self._text.deserialize(name)
                self._text.deserialize(held)
            except ValidationError as error:
                raise ValidationError({name: error.messages}) from None
        return value

    def described(self) -> JsonSchema:
        return {"type": "object", "additionalProperties": {"type": "string"}}


class CallShape(Shape):
    """One tool call with its result."""

    node_id = name_id()
    scope = name_id()
    tool_id = Text(1, 200, required=True)
    arguments = JsonText(required=True, allow_none=True)
    result = JsonText(required=True, allow_none=True)
    from_event = Flag()
    env = Env()


class RunWanted(Fingerprinted):
    """A run's whole content. `input` may be `null`; `output: null` means none yet."""

    project_id = Text(1, required=True)
    subject = Nested(SubjectShape, required=True)
    status = OneOf(*STATUSES, required=True)
    input = JsonText(required=True, allow_none=True)
    output = JsonText(allow_none=True)
    conversation_id = name_id()
    parent_run_id = plain_id()
    node_id = name_id()
    scope = name_id()
    replay_of = plain_id()
    segments = ListOf(Nested(SegmentShape))
    messages = JsonText("[")
    retrieved = JsonText()
    recalled = JsonText()
    session_approval = Nested(SessionApprovalShape)
    calls = KeptListOf(CallShape)
    started_at = Instant()
    finished_at = Instant()

    @validates_schema
    def _completed_has_output(self, data: dict[str, Any], **_: Any) -> None:
        if data.get("status") == "completed" and data.get("output") is None:
            raise ValidationError("must not be null: a completed run has an output", "output")


class RunLine(RunWanted):
    """One line of an import: a run's content with its id."""

    id = plain_id(required=True)


class RunSummary(Shape):
    """A run without what it took in and gave out."""

    id = Text(required=True)
    tenant_id = Text(required=True)
    project_id = Text(required=True)
    subject = Nested(SubjectShape, required=True)
    status = OneOf(*STATUSES, required=True)
    conversation_id = Text()
    parent_run_id = Text()
    node_id = Text()
    scope = Text()
    replay_of = Text()
    segments = ListOf(Nested(SegmentShape))
    session_approval = Nested(SessionApprovalShape)
    started_at = Instant()
    finished_at = Instant()
    created_at = Instant(required=True)
    updated_at = Instant(required=True)
    erased_at = Instant()


class RunShape(RunSummary):
    """A run. Payloads are as they came, white space between tokens aside."""

    input = JsonText(required=True, allow_none=True)
    output = JsonText(allow_none=True)
    messages = JsonText("[")
    retrieved = JsonText()
    recalled = JsonText()
    calls = KeptListOf(CallShape)


class RunPage(PageShape):
    data = ListOf(Nested(RunSummary), required=True)


class RefusedLine(Shape):
    """Why a line was refused: what the error of a PUT would say."""

    code = Text(required=True)
    message = Text(required=True)
    details = fields.Dict()


class Totals(Shape):
    created = Whole(0, 2**63, required=True)
    updated = Whole(0, 2**63, required=True)
    unchanged = Whole(0, 2**63, required=True)
    error = Whole(0, 2**63, required=True)


class ImportLine(Shape):
    """What came of a line, by its number from 1. The last line of the answer has `totals` alone."""

    line = Whole(1, 2**63)
    id = Text()
    result = OneOf("created", "updated", "unchanged", "error")
    error = Nested(RefusedLine)
    totals = Nested(Totals)


class RunQuery(PageQuery):
    project_id = Text(1)
    subject_kind = OneOf("agent", "flow")
    subject_id = Text(1)
    version = Text(1)
    status = Several(*STATUSES)
    conversation_id = Text(1)
    corrected = Flag()


def content_of(body: dict[str, Any]) -> RunContent:
    """A loaded ``RunWanted`` or ``RunLine`` as the domain takes it."""
    values = {name: value for name, value in body.items() if name != "id"}
    values["subject"] = Subject(**body["subject"])
    for name in ("segments", "session_approval"):
        if name in body:
            values[name] = json_text.dump(body[name])
    return RunContent(**values)

"""Shapes of test sets."""

from __future__ import annotations

import re
from typing import Any

from marshmallow import ValidationError, fields

from app.api.schemas.base import (
    Instant,
    JsonSchema,
    ListOf,
    Nested,
    Number,
    OneOf,
    PageQuery,
    PageShape,
    Query,
    Several,
    Shape,
    Text,
)
from app.api.schemas.corrections import (
    STATUSES,
    CorrectionShape,
    ExpectedCallShape,
    ItemShape,
)
from app.api.schemas.runs import SegmentShape, SubjectShape

FORMATS = ("jsonl", "openai-evals", "promptfoo", "inspect")

_SEGMENT = re.compile("([a-z][a-z0-9_-]{0,63}):([^\x00\ud800-\udfff]{1,256})", re.DOTALL)


class Segments(Several):
    """``key:value``, given once for each step of the path, in its order. A value may hold commas and colons."""

    def _deserialize(self, value: Any, attr: str | None, data: Any, **more: Any) -> Any:
        steps = [_SEGMENT.fullmatch(text) for text in value]
        if not all(steps):
            raise ValidationError("must be key:value, such as company:acme")
        return [(step.group(1), step.group(2)) for step in steps if step]

    def described(self) -> JsonSchema:
        return {"type": "array", "items": {"type": "string", "pattern": "^[a-z][a-z0-9_-]{0,63}:.{1,256}$"}}


class CaseFilters(Query):
    """What chooses the runs of a test set. ``since`` and ``until`` are of a run's first correction; one live
    correction must fit ``from``, ``correctorGroupId`` and ``status`` together.
    """

    project_id = Text(1)
    agent_id = Text(1)
    agent_version = Text(1)
    flow_id = Text(1)
    since = Instant()
    until = Instant()
    from_ = OneOf("experts", "end-users", "all", data_key="from")
    corrector_group_id = Text(1)
    status = Several("not-fixed", *STATUSES)
    segment = Segments()


class CaseQuery(CaseFilters, PageQuery):
    """One page; with ``Accept: application/x-ndjson`` all of it, whatever ``limit`` says."""


class CaseExport(CaseFilters):
    format = OneOf(*FORMATS, load_default="jsonl")


class WeighedCorrection(CorrectionShape):
    """A live correction of the run, and what its word counts: its group's weight, 1 without a group."""

    weight = Number(0, required=True)


class BalanceShape(Shape):
    """How those who spoke of it weigh; a tie is disputed."""

    verdict = OneOf("right", "wrong", "disputed", required=True)
    weight_right = Number(0, required=True)
    weight_wrong = Number(0, required=True)


class ExpectedDecisions(BalanceShape):
    """``shouldCall`` and ``mustNotCall`` are of those on the side that is wrong, each thing once."""

    should_call = ListOf(Nested(ExpectedCallShape), required=True)
    must_not_call = ListOf(Text(), required=True)


class ExpectedAnswer(BalanceShape):
    """``shouldSay`` is of those on the side that is wrong, each text once."""

    should_say = ListOf(Text(), required=True)


class ExpectedItem(BalanceShape):
    key = ItemShape._declared_fields["key"]
    pointer = ItemShape._declared_fields["pointer"]
    rank = ItemShape._declared_fields["rank"]


class ExpectedShape(Shape):
    """What the run should have done, by everybody's word. What nobody spoke of is absent."""

    decisions = Nested(ExpectedDecisions)
    answer = Nested(ExpectedAnswer)
    items = ListOf(Nested(ExpectedItem))


class CaseShape(Shape):
    """A corrected run as a case for a test runner. Input, context and output are the stored copy's."""

    run_id = Text(required=True)
    project_id = Text(required=True)
    subject = Nested(SubjectShape, required=True)
    input = fields.Raw(required=True, allow_none=True)
    context = fields.Dict()
    output = fields.Raw(required=True)
    segments = ListOf(Nested(SegmentShape))
    captured_at = Instant(required=True)
    corrections = ListOf(Nested(WeighedCorrection), required=True)
    expected = Nested(ExpectedShape, required=True)


class CasePage(PageShape):
    data = ListOf(Nested(CaseShape), required=True)

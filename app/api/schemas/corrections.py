"""Shapes of corrections."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from marshmallow import ValidationError, fields

from app.api.schemas.base import (
    Flag,
    Instant,
    JsonSchema,
    ListOf,
    Nested,
    OneOf,
    PageQuery,
    PageShape,
    Query,
    Several,
    Shape,
    Text,
)
from app.api.schemas.runs import SegmentShape, SubjectShape
from app.api.schemas.tokens import PrincipalShape
from app.domain import canonical, pointers

VERDICTS = ("right", "wrong")
STATUSES = ("open", "being-fixed", "with-owner", "fixed", "wont-fix", "removed")
QUEUES = ("improve", "developer", "owner")
MAX_ARGS = 4000


class Args(fields.Field[dict[str, Any]]):
    """The top-level argument fields to compare: at most 100, and 4000 characters in canonical JSON."""

    def _deserialize(self, value: Any, attr: str | None, data: Any, **more: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise ValidationError("must be a JSON object")
        if len(value) > 100:
            raise ValidationError("must have at most 100 properties")
        if len(canonical.dump(value)) > MAX_ARGS:
            raise ValidationError(f"must have at most {MAX_ARGS} characters in canonical JSON")
        if why := canonical.fault(value):
            raise ValidationError(why)
        return value

    def described(self) -> JsonSchema:
        limit = f"At most {MAX_ARGS} characters in canonical JSON."
        return {"type": "object", "maxProperties": 100, "description": limit}


class PointerText(Text):
    """A JSON Pointer (RFC 6901)."""

    def _deserialize(self, value: Any, attr: str | None, data: Any, **more: Any) -> str:
        text = super()._deserialize(value, attr, data, **more)
        try:
            pointers.tokens(text)
        except pointers.Malformed as error:
            raise ValidationError(str(error)) from None
        return text


class Rank(fields.Field[int]):
    """A position in a ranked list: a whole number, 0 for the first. ``1.0`` is one."""

    def _deserialize(self, value: Any, attr: str | None, data: Any, **more: Any) -> int:
        whole = isinstance(value, int | Decimal) and not isinstance(value, bool)
        if not whole or canonical.fault(value) or value < 0 or value % 1 != 0:
            raise ValidationError("must be a whole number, 0 or more")
        return int(value)

    def described(self) -> JsonSchema:
        return {"type": "integer", "minimum": 0}


class ExpectedCallWanted(Shape):
    """A call that the agent should have made."""

    tool = Text(1, 200, required=True)
    args = Args()


class ItemShape(Shape):
    """An item of a ranked list, and whether it was right there."""

    key = Text(1, 200, required=True)
    pointer = PointerText(0, 500)
    rank = Rank()
    verdict = OneOf(*VERDICTS, required=True)


class CorrectionWanted(Shape):
    """What one caller says of one run: at least one of ``decisions``, ``answer`` and ``items``."""

    run_id = Text(1, required=True)
    decisions = OneOf(*VERDICTS)
    should_call = ListOf(Nested(ExpectedCallWanted), 0, 50)
    must_not_call = ListOf(Text(1, 200), 0, 50)
    answer = OneOf(*VERDICTS)
    should_say = Text(0, 4000)
    why = Text(0, 4000)
    items = ListOf(Nested(ItemShape), 0, 100)
    corrector_group_id = Text(1)
    participant_id = Text(1)


class ExpectedCallShape(Shape):
    tool = Text(1, 200, required=True)
    args = Args(required=True)


class ActorShape(Shape):
    """A principal, or a rule or Improve job, which have no id."""

    kind = OneOf("user", "service", "fix-job", "rule", required=True)
    id = Text()


class SortedShape(Shape):
    by = Nested(ActorShape, required=True)
    reason = Text()
    at = Instant(required=True)


class LinkShape(Shape):
    """An Improve run or suggested change by its id, or a pull request by its address."""

    kind = OneOf("improve-run", "suggested-change", "pull-request", required=True)
    id = Text()
    url = Text()


class FixedInShape(Shape):
    """``version`` is absent for ``recorded-right``, which nothing had to fix."""

    version = Text()
    how = OneOf("pin", "latest", "recorded-right", required=True)
    by = Nested(PrincipalShape)
    at = Instant(required=True)


class ReopenedInShape(Shape):
    """The version that gets it wrong, and how the project came to run it."""

    version = Text(required=True)
    how = OneOf("pin", "went-back", "unpin", "latest", required=True)
    by = Nested(PrincipalShape)
    at = Instant(required=True)


class StatusNoteShape(Shape):
    text = Text(required=True)
    by = Nested(PrincipalShape, required=True)
    at = Instant(required=True)


class CorrectionShape(Shape):
    """One caller's correction of one run. Fields without a value are absent."""

    id = Text(required=True)
    tenant_id = Text(required=True)
    project_id = Text(required=True)
    run_id = Text(required=True)
    subject = Nested(SubjectShape, required=True)
    decisions = OneOf(*VERDICTS)
    should_call = ListOf(Nested(ExpectedCallShape))
    must_not_call = ListOf(Text())
    answer = OneOf(*VERDICTS)
    should_say = Text()
    why = Text()
    items = ListOf(Nested(ItemShape))
    corrector_group_id = Text()
    expert = Flag()
    made_by = Nested(PrincipalShape, required=True)
    participant_id = Text()
    status = OneOf(*STATUSES, required=True)
    sorted_to = OneOf(*QUEUES)
    sorted = Nested(SortedShape)
    link = Nested(LinkShape)
    fixed_in = Nested(FixedInShape)
    reopened_in = Nested(ReopenedInShape)
    status_note = Nested(StatusNoteShape)
    created_at = Instant(required=True)
    updated_at = Instant(required=True)
    unregistered_at = Instant()
    superseded_by = Text()


class CorrectionPage(PageShape):
    data = ListOf(Nested(CorrectionShape), required=True)


class CopyShape(Shape):
    """The stored copy of a corrected run, taken when it was first corrected. Null payloads and ``erasedAt`` once the
    run's content was erased."""

    run_id = Text(required=True)
    subject = Nested(SubjectShape, required=True)
    input = fields.Raw(required=True, allow_none=True)
    context = fields.Dict()
    output = fields.Raw(required=True, allow_none=True)
    segments = ListOf(Nested(SegmentShape))
    captured_at = Instant(required=True)
    erased_at = Instant()


class CorrectionWithCopy(CorrectionShape):
    """A correction with the stored copy of what was corrected."""

    run = Nested(CopyShape, required=True)


class HistoryRow(Shape):
    """Something that happened to a correction. ``at`` is when the row was written."""

    at = Instant(required=True)
    kind = OneOf(
        "recorded", "sorted", "status", "linked", "noted", "fixed", "reopened", "superseded", "removed", required=True
    )
    by = Nested(ActorShape)
    from_ = Text(data_key="from")
    to = Text()
    version = Text()
    how = Text()
    test_run_id = Text()
    reason = Text()


class History(Shape):
    data = ListOf(Nested(HistoryRow), required=True)


class CorrectionFilters(Query):
    """The filters of the list, which its counts and exports take too."""

    run_id = Text(1)
    agent_id = Text(1)
    agent_version = Text(1)
    flow_id = Text(1)
    status = Several("not-fixed", *STATUSES)
    sorted_to = Several("none", *QUEUES)
    from_ = OneOf("experts", "end-users", "all", data_key="from")
    made_by = OneOf("me")
    since = Instant()
    until = Instant()
    corrector_group_id = Text(1)
    participant_id = Text(1)
    scope_kind = OneOf("tenant", "org", "project")
    scope_id = Text(1)
    inherit = Flag()


class CorrectionQuery(CorrectionFilters, PageQuery):
    """The list's filters and its page."""

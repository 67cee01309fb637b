"""Shapes of test runs."""

from __future__ import annotations

from typing import Any

from marshmallow import ValidationError, fields, post_load, validates_schema

from app.api.schemas.base import (
    Instant,
    JsonSchema,
    JsonText,
    ListOf,
    Nested,
    OneOf,
    PageQuery,
    PageShape,
    Shape,
    Text,
    Whole,
    name_id,
)
from app.api.schemas.corrections import VERDICTS
from app.api.schemas.kept import loaded_elements
from app.api.schemas.runs import SubjectShape
from app.domain.grading import ToolCall
from app.services.report import Result

MOST_RESULTS = 10_000


class ObservedArgs(fields.Field[dict[str, Any]]):
    """The arguments that a call was made with."""

    def _deserialize(self, value: Any, attr: str | None, data: Any, **more: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise ValidationError("must be a JSON object")
        return value

    def described(self) -> JsonSchema:
        return {"type": "object"}


class ObservedCallWanted(Shape):
    """A call that was made in the test."""

    tool = Text(1, required=True)
    args = ObservedArgs(load_default=dict)

    @post_load
    def _call(self, data: dict[str, Any], **_: Any) -> ToolCall:
        return ToolCall(data["tool"], data["args"])


class ObservedWanted(Shape):
    calls = ListOf(Nested(ObservedCallWanted), required=True)


class ResultWanted(Shape):
    """What the test says of one correction: its verdict, or the calls that were observed, for the service to grade.

    `answerVerdict` goes with `observed`, exactly when the correction speaks of the answer or of items.
    """

    correction_id = Text(1, required=True)
    verdict = OneOf(*VERDICTS)
    observed = Nested(ObservedWanted)
    answer_verdict = OneOf(*VERDICTS)
    detail = JsonText(allow_none=True)

    @validates_schema
    def _one_of_both(self, data: dict[str, Any], **_: Any) -> None:
        if "verdict" in data and "observed" in data:
            raise ValidationError("must be left out when verdict is given", "observed")
        if "verdict" not in data and "observed" not in data:
            raise ValidationError("is required, or observed is", "verdict")
        if "answer_verdict" in data and "observed" not in data:
            raise ValidationError("goes with observed alone", "answerVerdict")

    @post_load
    def _result(self, data: dict[str, Any], **_: Any) -> Result:
        observed = data.get("observed")
        return Result(
            data["correction_id"],
            data.get("verdict"),
            tuple(observed["calls"]) if observed else None,
            data.get("answer_verdict"),
            data["detail"] or "null" if "detail" in data else None,
        )


class Results(JsonText):
    """1 to 10000 results, each of another correction."""

    shape = ResultWanted()

    def __init__(self, **more: Any) -> None:
        super().__init__("[", **more)

    def _deserialize(self, value: Any, attr: str | None, data: Any, **more: Any) -> Any:
        results = loaded_elements(self.shape, super()._deserialize(value, attr, data, **more), 1, MOST_RESULTS)
        named: set[str] = set()
        twice = {}
        for at, result in enumerate(results):
            if result.correction_id in named:
                twice[at] = {"correctionId": ["is named twice"]}
            named.add(result.correction_id)
        if twice:
            raise ValidationError(twice)
        return results

    def described(self) -> JsonSchema:
        return {"type": "array", "minItems": 1, "maxItems": MOST_RESULTS}


class TestRunWanted(Shape):
    """What a test of `subject` at its version says of corrections of the same agent or flow."""

    __test__ = False

    project_id = Text(1, required=True)
    subject = Nested(SubjectShape, required=True)
    results = Results(required=True)
    source = Text(1, 1000)
    at = Instant()


class CountsShape(Shape):
    """Results by verdict, and by what came of them. An ignored one is in neither `right` nor `wrong`."""

    right = Whole(0, MOST_RESULTS, required=True)
    wrong = Whole(0, MOST_RESULTS, required=True)
    fixed = Whole(0, MOST_RESULTS, required=True)
    reopened = Whole(0, MOST_RESULTS, required=True)
    unchanged = Whole(0, MOST_RESULTS, required=True)
    ignored = Whole(0, MOST_RESULTS, required=True)


class TestRunTaken(Shape):
    """It was accepted; workers apply it in its place among the events of the subject."""

    __test__ = False

    id = Text(required=True)
    status = OneOf("processing", required=True)
    counts = Nested(CountsShape, required=True)


class TestRunShape(Shape):
    """A test run, and what came of it once it is `applied`."""

    __test__ = False

    id = Text(required=True)
    project_id = Text(required=True)
    subject = Nested(SubjectShape, required=True)
    source = Text()
    at = Instant(required=True)
    status = OneOf("processing", "applied", required=True)
    counts = Nested(CountsShape, required=True)


class TestRunPage(PageShape):
    __test__ = False

    data = ListOf(Nested(TestRunShape), required=True)


class TestRunQuery(PageQuery):
    __test__ = False

    project_id = name_id()

"""What a test run says of each correction, told from what it says of whole runs; and what was fixed and is wrong again.

A test runner runs cases, and a case has as many corrections as people made. So a result may name a run: it then
counts for each live correction of that run that it can be held against.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from app.domain.errors import BadInput
from app.domain.grading import ToolCall, grade, grade_decisions
from app.domain.model import Verdict

Correction = Mapping[str, Any]
"""A correction as the wire shows it."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """``result`` is what ``POST /v1/test-runs`` takes. ``correction`` is ``None`` when it isn't a live one."""

    result: Mapping[str, Any]
    correction: Correction | None

    @property
    def verdict(self) -> Verdict | None:
        """What the service makes of it; ``None`` when it is of no live correction."""
        if self.correction is None:
            return None
        if "verdict" in self.result:
            given: Verdict = self.result["verdict"]
            return given
        should_call = [ToolCall(call["tool"], call["args"]) for call in self.correction.get("shouldCall", ())]
        observed = [ToolCall(call["tool"], call.get("args", {})) for call in self.result["observed"]["calls"]]
        decisions = grade_decisions(should_call, self.correction.get("mustNotCall", ()), observed)
        return grade(decisions, self.result.get("answerVerdict"))

    @property
    def wrong_again(self) -> bool:
        """Whether the correction stood fixed, and this version gets it wrong."""
        return self.verdict == "wrong" and self.correction is not None and self.correction["status"] == "fixed"


class Judge:
    """Holds results against the live corrections of one agent or flow in one project."""

    def __init__(self, corrections: Iterable[Correction]) -> None:
        self._by_id: dict[str, Correction] = {}
        self._by_run: dict[str, list[Correction]] = {}
        for correction in corrections:
            self._by_id[correction["id"]] = correction
            self._by_run.setdefault(correction["runId"], []).append(correction)

    def judge(self, said: Mapping[str, Any]) -> list[Judgement]:
        """What ``said`` comes to; nothing when it is of a run of which nothing can be told from it.

        :raises BadInput: if it doesn't name either a correction or a run.
        """
        if ("correctionId" in said) == ("runId" in said):
            raise BadInput("A result must name either a correctionId or a runId.")
        if "correctionId" in said:
            return [Judgement(said, self._by_id.get(said["correctionId"]))]
        found = ((of_run(said, correction), correction) for correction in self._by_run.get(said["runId"], ()))
        return [Judgement(result, correction) for result, correction in found if result is not None]


def of_run(said: Mapping[str, Any], correction: Correction) -> dict[str, Any] | None:
    """A run's result as one on ``correction``; ``None`` when it doesn't tell of what the correction is about.

    Calls tell of decisions that were wrong, ``answerVerdict`` of the answer and of items, ``verdict`` of everything.
    """
    result = {"correctionId": correction["id"]} | {n: v for n, v in said.items() if n not in ("runId", *_PARTS)}
    if "verdict" in said:
        return result | {"verdict": said["verdict"]}
    answer = {"answerVerdict": said["answerVerdict"]} if "answerVerdict" in said else {}
    if "answer" not in correction and "items" not in correction:
        answer = {}
    elif not answer:
        return None
    if "decisions" not in correction:
        return result | {"verdict": said["answerVerdict"]}
    if correction["decisions"] == "wrong" and "observed" in said:
        return result | {"observed": said["observed"]} | answer
    return None


_PARTS = ("verdict", "observed", "answerVerdict")

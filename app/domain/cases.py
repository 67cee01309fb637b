"""One corrected run as a case for a test runner: what went in, what came out, what people said of it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any

from app.domain import json_text, times
from app.domain.model import Subject
from app.domain.weighing import Weighed, expected, shown


@dataclass(frozen=True)
class Case:
    """``input``, ``context``, ``output`` and ``segments`` are the copy's JSON, to the letter.

    ``corrections`` are the live ones, newest first: what each says, and what its word counts; ``shown`` is their JSON
    as lists show them.
    """

    run_id: str
    project_id: str
    subject: Subject
    input: str
    context: str | None
    output: str
    segments: str
    captured_at: datetime
    corrections: tuple[Weighed, ...]
    shown: tuple[str, ...]

    @cached_property
    def expected(self) -> dict[str, Any]:
        """What the run should have done, by everybody's word."""
        return expected(self.corrections)


def case_json(case: Case) -> str:
    """``case`` as the wire shows it."""
    parts = {
        "runId": json_text.dump(case.run_id),
        "projectId": json_text.dump(case.project_id),
        "subject": json_text.dump(subject_of(case)),
        "input": case.input,
        "context": case.context,
        "output": case.output,
        "segments": case.segments,
        "capturedAt": f'"{times.wire(case.captured_at)}"',
        "corrections": f"[{','.join(_with_weights(case))}]",
        "expected": json_text.dump(case.expected),
    }
    return "{" + ",".join(f'"{name}":{text}' for name, text in parts.items() if text is not None) + "}"


def subject_of(case: Case) -> dict[str, Any]:
    """What the case's run ran, as the wire shows it."""
    return {"kind": case.subject.kind, "id": case.subject.id, "version": case.subject.version}


def _with_weights(case: Case) -> list[str]:
    pairs = zip(case.shown, case.corrections, strict=True)
    return [f'{text[:-1]},"weight":{json_text.dump(shown(said.weight))}}}' for text, said in pairs]

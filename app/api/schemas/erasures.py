"""Shapes of erasures."""

from __future__ import annotations

from typing import Any

from marshmallow import ValidationError, validates_schema

from app.api.schemas.base import Nested, OneOf, Shape, Text, Whole
from app.domain.erasing import Target, TargetKind

_MOST = (1 << 31) - 1
_KIND_OF: dict[str, TargetKind] = {
    "run_id": "run",
    "conversation_id": "conversation",
    "participant_id": "participant",
}


class ErasureWanted(Shape):
    """What to erase: exactly one of a run, the runs of a conversation, or what a participant said."""

    run_id = Text(1)
    conversation_id = Text(1)
    participant_id = Text(1)

    @validates_schema
    def _exactly_one(self, data: dict[str, Any], **_: Any) -> None:
        if len(data) != 1:
            raise ValidationError("must hold exactly one of runId, conversationId and participantId")


def target_of(body: dict[str, Any]) -> Target:
    """What a loaded ``ErasureWanted`` names."""
    ((name, target_id),) = body.items()
    return Target(_KIND_OF[name], target_id)


class ErasureCounts(Shape):
    """What was cleared: runs, copies, contexts of other copies, corrections, and answers kept for idempotency."""

    runs = Whole(0, _MOST, required=True)
    copies = Whole(0, _MOST, required=True)
    contexts = Whole(0, _MOST, required=True)
    corrections = Whole(0, _MOST, required=True)
    answers = Whole(0, _MOST, required=True)


class ErasureShape(Shape):
    """An erasure. Once it is `done`, what it erased is nowhere in the database."""

    id = Text(required=True)
    status = OneOf("running", "done", required=True)
    counts = Nested(ErasureCounts, required=True)

"""``/v1/erasures``."""

from __future__ import annotations

from app.api.routes import Answer, Call, Routes, answer
from app.api.schemas.erasures import ErasureShape, ErasureWanted, target_of
from app.domain.errors import (
    ConversationNotFound,
    ErasureNotFound,
    ParticipantNotFound,
    PermissionDenied,
    RunNotFound,
)
from app.services import erase

routes = Routes("erasures")


@routes.add(
    "POST",
    "/v1/erasures",
    body=ErasureWanted,
    answers={202: ErasureShape},
    errors=(PermissionDenied, RunNotFound, ConversationNotFound, ParticipantNotFound),
)
def erase_words(call: Call) -> Answer:
    """Erase what people wrote, for good.

    A run's erasure clears its content and its stored copy, and takes its messages, calls and retrievals out of the
    contexts of other copies; it needs admin on the run's project. A conversation's does so for all its runs, a
    participant's clears the words and the participant of all their corrections, which keep their verdicts; both need
    admin on the tenant. What had come when it was asked for is erased; workers do it, step by step.
    """
    erasure_id = erase.ask(call.tx, call.caller, target_of(call.body))
    return answer(erase.show(call.db, call.caller, erasure_id), 202)


@routes.add("GET", "/v1/erasures/{erasureId}", answers={200: ErasureShape}, missing=ErasureNotFound)
def get_erasure(call: Call) -> Answer:
    """Fetch an erasure: whether it is done, and what it did. For those who could have asked for it."""
    return answer(erase.show(call.db, call.caller, call.path["erasureId"]))

"""What a participant's token may say, ask and see. It lies open in a browser, so what isn't named here is denied."""

from __future__ import annotations

from dataclasses import replace

from app.domain import json_text
from app.domain.errors import PermissionDenied
from app.domain.filtering import Filters
from app.domain.model import Caller, Participant

_SEEN = frozenset(
    (
        *("id", "tenantId", "projectId", "runId", "subject", "madeBy", "participantId", "expert"),
        *("decisions", "shouldCall", "mustNotCall", "answer", "shouldSay", "why", "items"),
        *("status", "createdAt", "updatedAt", "unregisteredAt", "supersededBy"),
    )
)
"""What they said, and where it stands. Notes, links and reasons are the staff's; the run's copy is its owner's."""


def denied() -> PermissionDenied:
    """The one refusal of everything else: it doesn't tell what is there from what isn't."""
    return PermissionDenied("A participant's token records and reads that participant's correction of its run alone.")


def own(participant: Participant, run_id: str | None, participant_id: str | None) -> str:
    """Whose word it is that a request is about, which may name them or leave them out.

    :raises PermissionDenied: if it names another run or participant than the token's.
    """
    if run_id not in (None, participant.run_id) or participant_id not in (None, participant.participant_id):
        raise denied()
    return participant.participant_id


def narrowed(filters: Filters, caller: Caller) -> Filters:
    """``filters``, for a participant's token within their own corrections.

    :raises PermissionDenied: if they ask for another run or participant.
    """
    if caller.participant is None:
        return filters
    participant_id = own(caller.participant, filters.run_id, filters.participant_id)
    run_id = caller.participant.run_id
    return replace(filters, run_id=run_id, participant_id=participant_id, made_by=caller.principal)


def seen(correction: str, caller: Caller) -> str:
    """The JSON of a correction as far as ``caller`` may see it: all of it, but for a participant."""
    if caller.participant is None:
        return correction
    kept = {name: text for name, text in json_text.members(correction).items() if name in _SEEN}
    return "{" + ",".join(f'"{name}":{text}' for name, text in kept.items()) + "}"

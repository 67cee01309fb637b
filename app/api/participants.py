"""``/v1/participant-tokens``: for an end user's browser."""

from __future__ import annotations

from app.api.routes import Answer, Call, Routes, answer
from app.api.schemas.tokens import ParticipantTokenIssued, ParticipantTokenWanted
from app.domain import times
from app.domain.errors import PermissionDenied, RunErased, RunNotFound
from app.domain.model import Participant
from app.services.issue_tokens import issue_participant_token

routes = Routes("participants")


@routes.add(
    "POST",
    "/v1/participant-tokens",
    body=ParticipantTokenWanted,
    answers={201: ParticipantTokenIssued},
    errors=(RunNotFound, PermissionDenied, RunErased),
)
def create_participant_token(call: Call) -> Answer:
    """Make a token for an end user's browser.

    All that it may do is record and read that participant's correction of that run, as a correction of whoever made
    the token; any other use is 403. It ends after `ttlSeconds`, or with the token that made it. The run may still go
    on. Needs write on its project.
    """
    body = call.body
    participant = Participant(body["run_id"], body["participant_id"])
    secret, expires_at = issue_participant_token(call.tx, call.caller, participant, body["ttl_seconds"])
    return answer({"token": secret, "expiresAt": times.wire(expires_at)}, 201, secret=True)

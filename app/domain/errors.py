"""One family of errors, named for what is wrong.

Each class carries the stable ``code`` that callers see. HTTP statuses live in ``app/api/errors.py`` alone.
"""

from __future__ import annotations

from typing import Any, ClassVar


class Refused(Exception):
    """Something was asked that can't be done. ``details`` is shown to the caller, so it holds no secrets."""

    code: ClassVar[str] = "refused"

    def __init__(self, message: str, **details: Any) -> None:
        super().__init__(message)
        self.message = message
        self.details = details


class BadInput(Refused):
    """A fault of a body or parameter that has no code of its own."""

    code = "bad-input"

    @classmethod
    def at(cls, path: str, message: str) -> BadInput:
        """One issue at ``path``, a JSON Pointer into the body (or ``/query/name``)."""
        return cls(f"{path or 'The body'}: {message}", issues=[{"path": path, "message": message}])


class UnknownField(Refused):
    code = "unknown-field"


class ScopeInvalid(Refused):
    code = "scope-invalid"


class ItemNotFound(Refused):
    code = "item-not-found"


class CorrectorGroupNotApplicable(Refused):
    code = "corrector-group-not-applicable"


# Who calls


class NotAuthenticated(Refused):
    code = "auth-missing"


class TokenRevoked(NotAuthenticated):
    code = "auth-revoked"


class TokenExpired(NotAuthenticated):
    code = "auth-expired"


class PermissionDenied(Refused):
    code = "permission-denied"


class CorrectorGroupNotAllowed(PermissionDenied):
    code = "corrector-group-not-allowed"


# What isn't there


class NotFound(Refused):
    code = "not-found"


class RouteNotFound(NotFound):
    code = "route-not-found"


class RunNotFound(NotFound):
    code = "run-not-found"


class CorrectionNotFound(NotFound):
    code = "correction-not-found"


class ProjectNotFound(NotFound):
    code = "project-not-found"

    @classmethod
    def named(cls, project_id: str) -> ProjectNotFound:
        """There is none of that id, as far as the caller may know."""
        return cls(f"There is no project {project_id}.", projectId=project_id)


class AgentNotFound(NotFound):
    code = "agent-not-found"


class FlowNotFound(NotFound):
    code = "flow-not-found"


class CorrectorGroupNotFound(NotFound):
    code = "corrector-group-not-found"


class TokenNotFound(NotFound):
    code = "token-not-found"


class NotificationNotFound(NotFound):
    code = "notification-not-found"


class NotificationEndpointNotFound(NotFound):
    code = "notification-endpoint-not-found"


class DeliveryNotFound(NotFound):
    code = "delivery-not-found"


class WorkItemNotFound(NotFound):
    code = "work-item-not-found"


class TestRunNotFound(NotFound):
    __test__ = False
    code = "test-run-not-found"


class ErasureNotFound(NotFound):
    code = "erasure-not-found"


class ConversationNotFound(NotFound):
    code = "conversation-not-found"


class ParticipantNotFound(NotFound):
    code = "participant-not-found"


# What the state of things forbids


class Conflict(Refused):
    code = "conflict"


class RunNotFinished(Conflict):
    code = "run-not-finished"


class RunAlreadyTerminal(Conflict):
    code = "run-already-terminal"


class RunProjectMismatch(Conflict):
    code = "run-project-mismatch"


class CorrectionSuperseded(Conflict):
    code = "correction-superseded"


class CorrectionRemoved(Conflict):
    code = "correction-removed"


class CorrectorGroupNameTaken(Conflict):
    code = "corrector-group-name-taken"


class CorrectorGroupUnregistered(Conflict):
    code = "corrector-group-unregistered"


class NotificationEndpointEnded(Conflict):
    code = "notification-endpoint-ended"


class NotPinned(Conflict):
    code = "not-pinned"


class LeaseLost(Conflict):
    code = "lease-lost"


class IdempotencyKeyBodyMismatch(Conflict):
    code = "idempotency-key-body-mismatch"


class IdempotencyKeyInFlight(Conflict):
    code = "idempotency-key-in-flight"


class IdempotencyKeyReplayWithheld(Conflict):
    code = "idempotency-key-replay-withheld"


class RunErased(Refused):
    code = "run-erased"


class PreconditionFailed(Refused):
    code = "precondition-failed"


# What the edge and the machinery refuse


class MethodNotAllowed(Refused):
    code = "method-not-allowed"


class RequestTooLarge(Refused):
    code = "request-too-large"


class UnsupportedMediaType(Refused):
    code = "unsupported-media-type"


class RateLimitExceeded(Refused):
    code = "rate-limit-exceeded"


class DatabaseBusy(Refused):
    """The database couldn't answer in time; nothing was changed."""

    code = "database-busy"


class IdempotencyStoreUnavailable(DatabaseBusy):
    code = "idempotency-store-unavailable"


class NotReady(Refused):
    """The service can't serve requests yet, or any more."""

    code = "not-ready"


class InternalError(Refused):
    code = "internal-error"

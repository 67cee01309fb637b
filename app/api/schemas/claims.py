"""Shapes of claims on work, and of what a holder does with a lease."""

from __future__ import annotations

from typing import Any, ClassVar

from marshmallow import ValidationError, post_load, validates_schema

from app.api.schemas.base import Instant, ListOf, Nested, OneOf, Shape, Text, Whole, name_id
from app.api.schemas.changes import LinkWanted
from app.api.schemas.corrections import CorrectionWithCopy
from app.api.schemas.work import QUEUES
from app.domain.changing import Change
from app.domain.model import Subject

_LEASE = (30, 3600)
_WEEK = 7 * 24 * 3600


class ClaimedSubject(Shape):
    """An agent or a flow, whatever its version."""

    kind = OneOf("agent", "flow", required=True)
    id = name_id(required=True)

    @post_load
    def _subject(self, data: dict[str, Any], **_: Any) -> Subject:
        return Subject(data["kind"], data["id"])


class ClaimWanted(Shape):
    """Which queue's items are claimed, perhaps of one project or subject, how many, and for how long."""

    queue = OneOf(*QUEUES, required=True)
    project_id = Text(1)
    subject = Nested(ClaimedSubject)
    limit = Whole(1, 100, load_default=1)
    lease_seconds = Whole(*_LEASE, load_default=300)


class ClaimShape(Shape):
    """An item that the caller holds until its lease expires. `attempt` counts this lease."""

    work_item_id = Text(required=True)
    queue = OneOf(*QUEUES, required=True)
    lease_token = Text(required=True)
    lease_expires_at = Instant(required=True)
    attempt = Whole(1, 1 << 53, required=True)
    correction = Nested(CorrectionWithCopy, required=True)


class ClaimsShape(Shape):
    items = ListOf(Nested(ClaimShape), required=True)


class RenewalWanted(Shape):
    """How long the lease is to last from now."""

    lease_token = Text(1, 256, required=True)
    lease_seconds = Whole(*_LEASE, required=True)


class ReleaseWanted(Shape):
    """An item is given back, perhaps not to be claimed again for a while."""

    lease_token = Text(1, 256, required=True)
    delay_seconds = Whole(0, _WEEK, load_default=0)
    reason = Text(1, 4000)


class OutcomeWanted(Shape):
    """What came of the work: it is `being-fixed`, with a `link`; a `re-sort` to another queue; or a `wont-fix`."""

    kind = OneOf("being-fixed", "re-sort", "wont-fix", required=True)
    link = Nested(LinkWanted)
    sorted_to = OneOf(*QUEUES)
    reason = Text(1, 4000)
    note = Text(1, 4000)

    NEEDED: ClassVar[dict[str, str]] = {"being-fixed": "link", "re-sort": "sorted_to"}
    TAKEN: ClassVar[dict[str, tuple[str, ...]]] = {
        "being-fixed": ("link",),
        "re-sort": ("sorted_to", "reason"),
        "wont-fix": ("note",),
    }

    @validates_schema
    def _of_its_kind(self, data: dict[str, Any], **_: Any) -> None:
        kind = data.get("kind", "")
        for name in data:
            if name != "kind" and name not in self.TAKEN.get(kind, ()):
                raise ValidationError(f"must be left out for {kind}", name)
        if self.NEEDED.get(kind) not in (None, *data):
            raise ValidationError("is required", self.NEEDED[kind])

    @post_load
    def _change(self, data: dict[str, Any], **_: Any) -> Change:
        kind = data.pop("kind")
        return Change(**data) if kind == "re-sort" else Change(status=kind, **data)


class CompletionWanted(Shape):
    lease_token = Text(1, 256, required=True)
    outcome = Nested(OutcomeWanted, required=True)

"""Shapes of what projects run, and of what moves it."""

from __future__ import annotations

from typing import Any

from marshmallow import post_load

from app.api.schemas.base import Flag, Instant, ListOf, Nested, OneOf, Shape, Text, name_id
from app.api.schemas.changes import LinkWanted
from app.api.schemas.tokens import PrincipalShape
from app.services.deploy import Resolves

HOWS = ("pin", "went-back", "unpin", "latest")


class SubjectRef(Shape):
    """An agent or a flow, whatever its version."""

    kind = OneOf("agent", "flow", required=True)
    id = name_id(required=True)


class ResolvesWanted(Shape):
    """The corrections that it fixes, by their ids or links. What matches nothing is fine."""

    correction_ids = ListOf(Text(1, 256), 0, 10_000)
    links = ListOf(Nested(LinkWanted), 0, 1_000)

    @post_load
    def _resolves(self, data: dict[str, Any], **_: Any) -> Resolves:
        return Resolves(tuple(data.get("correction_ids", ())), tuple(data.get("links", ())))


class DeployWanted(Shape):
    subject = Nested(SubjectRef, required=True)
    version = name_id(required=True)
    how = OneOf("deploy", "add", load_default="deploy")
    resolves = Nested(ResolvesWanted)
    at = Instant()


class PinWanted(Shape):
    subject = Nested(SubjectRef, required=True)
    version = name_id(required=True)
    resolves = Nested(ResolvesWanted)


class UnpinWanted(Shape):
    subject = Nested(SubjectRef, required=True)


class ChangedShape(Shape):
    """What a project runs after it; `version` is absent when it runs none. `at` is when it was accepted."""

    project_id = Text(required=True)
    version = Text()
    how = OneOf(*HOWS, required=True)
    by = Nested(PrincipalShape)
    at = Instant(required=True)


class AcceptedShape(Shape):
    """It was accepted, and what runs has moved; workers then apply what follows to the corrections."""

    id = Text(required=True)
    subject = Nested(SubjectRef, required=True)
    version = Text()
    changed = ListOf(Nested(ChangedShape), required=True)


class RunningShape(Shape):
    """What a project runs of a subject. `by` is absent for `latest`."""

    subject = Nested(SubjectRef, required=True)
    version = Text(required=True)
    how = OneOf(*HOWS, required=True)
    by = Nested(PrincipalShape)
    at = Instant(required=True)
    pinned = Flag(required=True)


class RunningList(RunningShape):
    """All that a project runs, by subject."""

    bare_list = True


class RanShape(Shape):
    """What a project ran of a subject from `at` on; no `version`: none."""

    subject = Nested(SubjectRef, required=True)
    version = Text()
    how = OneOf(*HOWS, required=True)
    by = Nested(PrincipalShape)
    at = Instant(required=True)


class RunningHistory(Shape):
    data = ListOf(Nested(RanShape), required=True)

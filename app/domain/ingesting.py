"""What a PUT of a run does, given what there is under its id."""

from __future__ import annotations

from typing import Literal

from app.domain.errors import RunAlreadyTerminal, RunErased, RunProjectMismatch
from app.domain.model import ENDED, KnownRun, RunContent

Result = Literal["created", "updated", "unchanged"]


def result_of(known: KnownRun | None, content: RunContent) -> Result:
    """What putting ``content`` comes to.

    :raises RunProjectMismatch: if the run is another project's.
    :raises RunErased: if its content was erased.
    :raises RunAlreadyTerminal: if it has ended with other content.
    """
    if known is None:
        return "created"
    if known.project_id != content.project_id:
        raise RunProjectMismatch("A run of this id belongs to another project.")
    if known.erased:
        raise RunErased("This run's content was erased.")
    if known.content_sha256 == content.content_sha256:
        return "unchanged"
    if known.status in ENDED:
        raise RunAlreadyTerminal(f"This run has ended ({known.status}); its content no longer changes.")
    return "updated"

"""Which spans join the run of their trace."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from app.domain.model import KnownRun


@dataclass(frozen=True, slots=True)
class KnownTrace:
    """What there is under a trace's id in a project: the hash of the run that its spans were made into, whether what is
    awaited may still come, the run of that id (of whichever project), and whether it was ever corrected."""

    content_sha256: bytes | None = None
    patient: bool = True
    run: KnownRun | None = None
    corrected: bool = False


@dataclass(frozen=True, slots=True)
class Joined:
    """What came of spans: how many were turned away, and why."""

    rejected: int = 0
    why: str = ""


def closed(known: KnownTrace, project_id: str) -> str | None:
    """Why no span of ``project_id`` may join, if so."""
    if known.run is None:
        return None
    if known.run.erased:
        return "run-erased: the run's content was erased"
    if known.run.project_id != project_id:
        return "run-project-mismatch: the trace's run belongs to another project"
    if known.run.content_sha256 != known.content_sha256:
        return "run-already-terminal: a run of this id was made without its spans"
    return None


def frozen(known: KnownTrace, news: Collection[str]) -> Joined | None:
    """What becomes of the spans ``news``, which say something new, once nothing may change any more."""
    if not known.corrected or not news:
        return None
    return Joined(len(news), "run-already-terminal: the run was corrected and no longer changes")

"""What each constraint that callers can run into means to them: PostgreSQL refuses, this names the refusal."""

from __future__ import annotations

import psycopg2

from app.domain.errors import CorrectorGroupNameTaken, ProjectNotFound, Refused

REFUSALS: dict[str, tuple[type[Refused], str]] = {
    "corrector_groups_name_uq": (CorrectorGroupNameTaken, "A corrector group of this scope has that name already."),
    "corrector_groups_project_fk": (ProjectNotFound, "There is no such project."),
}
"""By the constraint's name: the error, and its message."""


def refused(error: psycopg2.IntegrityError) -> Exception:
    """The named error of a violated constraint; ``error`` itself when that would be a fault of ours."""
    meaning = REFUSALS.get(error.diag.constraint_name or "")
    return meaning[0](meaning[1]) if meaning else error

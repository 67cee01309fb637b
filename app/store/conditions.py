"""What lists share: what the caller may read, and where the page before ended, as conditions of the query itself."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from app.domain.permission import Reach

Position = tuple[datetime, str]
"""The time and id of the row after which a page starts."""


@dataclass(slots=True)
class Conditions:
    """Conditions that hold together, with the parameters that they name."""

    params: dict[str, Any]
    texts: list[str] = field(default_factory=list)

    def add(self, text: str, **params: Any) -> None:
        """One condition more, with its parameters."""
        self.texts.append(text)
        self.params |= params

    def equal(self, column: str, name: str, value: Any) -> None:
        """``column`` equals ``value``; nothing is asked of it when that is ``None``."""
        if value is not None:
            self.add(f"{column} = %({name})s", **{name: value})

    def within(self, reach: Reach, column: str) -> None:
        """The project named by ``column`` is in ``reach``. Uses the parameter ``tenant``."""
        if reach.everything:
            return
        self.add(
            f"({column} = ANY(%(reach_projects)s::text[]) OR {column} IN (SELECT o.id FROM projects o"
            " WHERE o.tenant_id = %(tenant)s AND o.org_id = ANY(%(reach_orgs)s::text[])))",
            reach_projects=list(reach.project_ids),
            reach_orgs=list(reach.org_ids),
        )

    def after(self, position: Position | None, at: str, row_id: str) -> None:
        """Older than ``position`` by the columns ``at`` and ``row_id``."""
        if position is not None:
            self.add(f"({at}, {row_id}) < (%(after_at)s, %(after_id)s)", after_at=position[0], after_id=position[1])

    @property
    def sql(self) -> str:
        return " AND ".join(self.texts) or "true"

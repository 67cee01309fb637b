"""Projects."""

from __future__ import annotations

from app.domain.model import ProjectRef
from app.store.engine import Db


def ref(db: Db, tenant_id: str, project_id: str) -> ProjectRef | None:
    """The project as permission needs it, or ``None`` if the tenant has none of that id."""
    row = db.row("SELECT id, org_id FROM projects WHERE tenant_id = %s AND id = %s", (tenant_id, project_id))
    return None if row is None else ProjectRef(*row)

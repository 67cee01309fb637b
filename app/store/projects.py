"""Projects."""

from __future__ import annotations

from typing import Any

from app.domain import times
from app.domain.model import ProjectRef
from app.domain.permission import Reach
from app.store.conditions import Conditions, Position
from app.store.engine import Db, Row

_COLUMNS = "id, name, org_id, retention_runs_days, retention_tombstones_days, created_at, updated_at"
_NOW = "date_trunc('milliseconds', clock_timestamp())"


def ref(db: Db, tenant_id: str, project_id: str) -> ProjectRef | None:
    """The project as permission needs it."""
    row = db.row("SELECT id, org_id FROM projects WHERE tenant_id = %s AND id = %s", (tenant_id, project_id))
    return None if row is None else ProjectRef(*row)


def put(db: Db, tenant_id: str, project_id: str, columns: dict[str, Any]) -> bool:
    """Make the project, or change the named ``columns`` of the one that there is. Says whether it is new."""
    params = columns | {"tenant": tenant_id, "id": project_id}
    names = "".join(f", {name}" for name in columns)
    values = "".join(f", %({name})s" for name in columns)
    made = db.run(
        f"INSERT INTO projects (tenant_id, id, created_at, updated_at{names})"
        f" SELECT %(tenant)s, %(id)s, t.now, t.now{values} FROM (SELECT {_NOW} AS now) t ON CONFLICT DO NOTHING",
        params,
    )
    if not made and columns:
        _change(db, columns, params)
    return made == 1


def _change(db: Db, columns: dict[str, Any], params: dict[str, Any]) -> None:
    changes = "".join(f"{name} = %({name})s, " for name in columns)
    differs = " OR ".join(f"{name} IS DISTINCT FROM %({name})s" for name in columns)
    db.run(
        f"UPDATE projects SET {changes}updated_at = {_NOW}"
        f" WHERE tenant_id = %(tenant)s AND id = %(id)s AND ({differs})",
        params,
    )


def show(db: Db, tenant_id: str, project_id: str) -> dict[str, Any] | None:
    """The project as the wire shows it."""
    row = db.row(f"SELECT {_COLUMNS} FROM projects WHERE tenant_id = %s AND id = %s", (tenant_id, project_id))
    return None if row is None else _shown(tenant_id, row)


def newest(
    db: Db, tenant_id: str, reach: Reach, count: int, position: Position | None
) -> list[tuple[Position, dict[str, Any]]]:
    """Up to ``count`` projects within ``reach`` after ``position``, newest first, each with its own position."""
    asked = Conditions({"tenant": tenant_id, "count": count}, ["tenant_id = %(tenant)s"])
    asked.within(reach, "projects.id")
    asked.after(position, "created_at", "id")
    rows = db.rows(
        f"SELECT {_COLUMNS} FROM projects WHERE {asked.sql} ORDER BY created_at DESC, id DESC LIMIT %(count)s",
        asked.params,
    )
    return [((row[5], row[0]), _shown(tenant_id, row)) for row in rows]


def _shown(tenant_id: str, row: Row) -> dict[str, Any]:
    project_id, name, org_id, runs_days, tombstones_days, created_at, updated_at = row
    retention = _present({"runsDays": runs_days, "tombstonesDays": tombstones_days})
    return _present(
        {
            "id": project_id,
            "tenantId": tenant_id,
            "name": name,
            "orgId": org_id,
            "retention": retention or None,
            "createdAt": times.wire(created_at),
            "updatedAt": times.wire(updated_at),
        }
    )


def _present(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}

"""Agents and flows: what they are called, and who owns them."""

from __future__ import annotations

from dataclasses import dataclass

from app.domain.model import Principal, SubjectKind
from app.domain.permission import Reach
from app.store.conditions import Conditions, Position
from app.store.engine import Db


@dataclass(frozen=True, slots=True)
class Registration:
    """What a PUT says of a subject."""

    name: str | None = None
    owners: tuple[Principal, ...] = ()


def lock(db: Db, tenant_id: str, kind: SubjectKind, subject_id: str) -> Registration | None:
    """What was said of the subject until now, if anything was. It is there, and locked, from now on."""
    key = (tenant_id, kind, subject_id)
    db.run("INSERT INTO subjects (tenant_id, kind, id) VALUES (%s, %s, %s) ON CONFLICT DO NOTHING", key)
    row = db.row(
        "SELECT name, registered_at FROM subjects WHERE tenant_id = %s AND kind = %s AND id = %s FOR NO KEY UPDATE", key
    )
    assert row is not None
    name, registered_at = row
    return None if registered_at is None else Registration(name, _owners(db, key))


def _owners(db: Db, key: tuple[str, str, str]) -> tuple[Principal, ...]:
    rows = db.rows(
        "SELECT owner_kind, owner_id FROM subject_owners WHERE tenant_id = %s AND kind = %s AND id = %s"
        " ORDER BY position",
        key,
    )
    return tuple(Principal(*row) for row in rows)


_REGISTER = """
UPDATE subjects SET name = %(name)s, registered_at = coalesce(registered_at, t.now), updated_at = t.now
  FROM (SELECT date_trunc('milliseconds', clock_timestamp()) AS now) t
 WHERE tenant_id = %(tenant)s AND kind = %(kind)s AND id = %(id)s
"""

_ADD_OWNERS = """
INSERT INTO subject_owners (tenant_id, kind, id, position, owner_kind, owner_id)
SELECT %(tenant)s, %(kind)s, %(id)s, o.position, o.owner_kind, o.owner_id
  FROM unnest(%(kinds)s::text[], %(ids)s::text[]) WITH ORDINALITY AS o(owner_kind, owner_id, position)
"""


def register(db: Db, tenant_id: str, kind: SubjectKind, subject_id: str, said: Registration) -> None:
    """Write what is ``said`` of the subject, which is locked."""
    keys = {"tenant": tenant_id, "kind": kind, "id": subject_id}
    db.run(_REGISTER, keys | {"name": said.name})
    db.run("DELETE FROM subject_owners WHERE tenant_id = %(tenant)s AND kind = %(kind)s AND id = %(id)s", keys)
    db.run(
        _ADD_OWNERS,
        keys | {"kinds": [owner.kind for owner in said.owners], "ids": [owner.id for owner in said.owners]},
    )


_SHOWN = """
concat('{"id":', to_json(s.id), ',"tenantId":"', s.tenant_id, '"', ',"name":' || to_json(s.name)::text, ',"owners":[',
       (SELECT string_agg(wire_principal(o.owner_kind, o.owner_id), ',' ORDER BY o.position) FROM subject_owners o
         WHERE o.tenant_id = s.tenant_id AND o.kind = s.kind AND o.id = s.id),
       '],"createdAt":"', wire_time(s.created_at),
       '","updatedAt":"', wire_time(coalesce(s.updated_at, s.created_at)), '"}')
"""


def show(db: Db, tenant_id: str, reach: Reach, kind: SubjectKind, subject_id: str) -> str | None:
    """The subject as the wire shows it, if it is visible within ``reach`` (see ``newest``)."""
    asked = _visible(tenant_id, reach, kind)
    asked.equal("s.id", "id", subject_id)
    text: str | None = db.value(f"SELECT {_SHOWN} FROM subjects s WHERE {asked.sql}", asked.params)
    return text


def newest(
    db: Db, tenant_id: str, reach: Reach, kind: SubjectKind, count: int, position: Position | None
) -> list[tuple[Position, str]]:
    """Up to ``count`` subjects of ``kind`` after ``position``, newest first.

    Visible are those that were registered, and those that a project within ``reach`` knows.
    """
    asked = _visible(tenant_id, reach, kind)
    asked.after(position, "s.created_at", "s.id")
    rows = db.rows(
        f"SELECT s.created_at, s.id, {_SHOWN} FROM subjects s WHERE {asked.sql}"
        " ORDER BY s.created_at DESC, s.id DESC LIMIT %(count)s",
        asked.params | {"count": count},
    )
    return [((row[0], row[1]), row[2]) for row in rows]


def _visible(tenant_id: str, reach: Reach, kind: SubjectKind) -> Conditions:
    known = Conditions({"tenant": tenant_id, "kind": kind}, ["w.tenant_id = s.tenant_id"])
    known.texts += ["w.subject_kind = s.kind", "w.subject_id = s.id"]
    known.within(reach, "w.project_id")
    asked = Conditions(known.params, ["s.tenant_id = %(tenant)s", "s.kind = %(kind)s"])
    if not reach.everything:
        asked.add(f"(s.registered_at IS NOT NULL OR EXISTS (SELECT FROM running w WHERE {known.sql}))")
    return asked

"""What each project runs of each subject that it knows."""

from __future__ import annotations

from app.domain.model import Subject
from app.store.engine import Db

_KNOWN = """
SELECT true FROM running
 WHERE tenant_id = %(tenant)s AND project_id = %(project)s AND subject_kind = %(kind)s AND subject_id = %(id)s
"""

_MAKE_SUBJECT = """
INSERT INTO subjects (tenant_id, kind, id) VALUES (%(tenant)s, %(kind)s, %(id)s) ON CONFLICT DO NOTHING
"""

# Waits for a deploy that is moving Latest, and keeps the next one waiting until this project is one of those it moves.
_LATEST = """
SELECT latest_version FROM subjects
 WHERE tenant_id = %(tenant)s AND kind = %(kind)s AND id = %(id)s FOR SHARE
"""

_MAKE_RUNNING = """
INSERT INTO running (tenant_id, project_id, subject_kind, subject_id, version, how, at)
VALUES (%(tenant)s, %(project)s, %(kind)s, %(id)s, %(latest)s, CASE WHEN %(latest)s IS NOT NULL THEN 'latest' END,
        CASE WHEN %(latest)s IS NOT NULL THEN date_trunc('milliseconds', clock_timestamp()) END)
ON CONFLICT DO NOTHING
"""


def knows(db: Db, tenant_id: str, project_id: str, subject: Subject) -> bool:
    """Whether the project knows the subject by a run, a correction or a pin."""
    return db.value(_KNOWN, _keys(tenant_id, project_id, subject)) is not None


def acquaint(db: Db, tenant_id: str, project_id: str, subject: Subject) -> bool:
    """Make the project know the subject; from its first time on it runs the subject's Latest, if there is one.

    Cheap when it is known already. Says whether this was the first time. Call it in the transaction of the run or pin
    that brings the subject in, and before any ``lock_subject`` of it: a deploy locks the subject's row, then those.
    """
    if knows(db, tenant_id, project_id, subject):
        return False
    keys = _keys(tenant_id, project_id, subject)
    db.run(_MAKE_SUBJECT, keys)
    latest = db.value(_LATEST, keys)
    return db.run(_MAKE_RUNNING, keys | {"latest": latest}) == 1


def _keys(tenant_id: str, project_id: str, subject: Subject) -> dict[str, str | None]:
    return {"tenant": tenant_id, "project": project_id, "kind": subject.kind, "id": subject.id}

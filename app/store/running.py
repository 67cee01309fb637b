"""What each project runs of each subject that it knows."""

from __future__ import annotations

from datetime import datetime

from app.domain.model import Principal, Subject
from app.domain.running import Current, Latest
from app.store.engine import Db
from app.store.ids import new_id

Keys = dict[str, str]

_KNOWN = """
SELECT true FROM running
 WHERE tenant_id = %(tenant)s AND project_id = %(project)s AND subject_kind = %(kind)s AND subject_id = %(id)s
"""

_MAKE_SUBJECT = """
INSERT INTO subjects (tenant_id, kind, id) VALUES (%(tenant)s, %(kind)s, %(id)s) ON CONFLICT DO NOTHING
"""

# Waits for a deploy that is moving Latest, and keeps the next one waiting until this project is one of those it moves.
_LATEST_SHARED = """
SELECT latest_version FROM subjects
 WHERE tenant_id = %(tenant)s AND kind = %(kind)s AND id = %(id)s FOR SHARE
"""

# The first event of a project that follows Latest from its first time on. There is no correction yet to decide on.
_ACQUAINT = """
WITH met AS (
    INSERT INTO running (tenant_id, project_id, subject_kind, subject_id, version, how, at, accepted_seq, applied_seq)
    SELECT %(tenant)s, %(project)s, %(kind)s, %(id)s, l.version, l.how, l.at, l.seq, l.seq
      FROM (SELECT %(latest)s, 'latest', date_trunc('milliseconds', clock_timestamp()), 1
             WHERE %(latest)s IS NOT NULL
             UNION ALL SELECT NULL, NULL, NULL, 0 WHERE %(latest)s IS NULL) l(version, how, at, seq)
        ON CONFLICT DO NOTHING RETURNING version, at
), told AS (
    INSERT INTO accepted_events (tenant_id, project_id, subject_kind, subject_id, seq, kind, source_id, accepted_at,
                                 version, how, moved, decides)
    SELECT %(tenant)s, %(project)s, %(kind)s, %(id)s, 1, 'acquaintance', %(event)s, at, version, 'latest', true, 'none'
      FROM met WHERE version IS NOT NULL
)
SELECT true FROM met
"""


def keys_of(tenant_id: str, project_id: str, subject: Subject) -> Keys:
    """What names a subject in a project, as the parameters ``tenant``, ``project``, ``kind`` and ``id``."""
    return {"tenant": tenant_id, "project": project_id, "kind": subject.kind, "id": subject.id}


def knows(db: Db, tenant_id: str, project_id: str, subject: Subject) -> bool:
    """Whether the project knows the subject by a run, a correction or a pin."""
    return db.value(_KNOWN, keys_of(tenant_id, project_id, subject)) is not None


def acquaint(db: Db, tenant_id: str, project_id: str, subject: Subject) -> bool:
    """Make the project know the subject; from its first time on it runs the subject's Latest, if there is one.

    Cheap when it is known already. Says whether this was the first time. Call it in the transaction of the run that
    brings the subject in, and before any ``lock_subject`` of it: a deploy locks the subject's row, then those.
    """
    if knows(db, tenant_id, project_id, subject):
        return False
    keys = keys_of(tenant_id, project_id, subject)
    db.run(_MAKE_SUBJECT, keys)
    latest = db.value(_LATEST_SHARED, keys)
    return db.value(_ACQUAINT, keys | {"latest": latest, "event": new_id()}) is not None


# How an event takes its place: the locks first, in this order; then the clock.

_LATEST = """
SELECT latest_version, latest_at, latest_deploy_id FROM subjects
 WHERE tenant_id = %(tenant)s AND kind = %(kind)s AND id = %(id)s
"""

_CURRENT = """
INSERT INTO running (tenant_id, project_id, subject_kind, subject_id)
VALUES (%(tenant)s, %(project)s, %(kind)s, %(id)s)
ON CONFLICT ON CONSTRAINT running_pk DO UPDATE SET accepted_seq = running.accepted_seq
RETURNING version, how, by_kind, by_id, pinned
"""


def lock_latest(db: Db, tenant_id: str, subject: Subject) -> Latest | None:
    """Latest of the subject, which is made if need be. Nothing of it moves elsewhere until this transaction ends."""
    keys = keys_of(tenant_id, "", subject)
    db.run(_MAKE_SUBJECT, keys)
    latest = _latest(db, keys, "FOR UPDATE")
    db.run("SELECT lock_subject_everywhere(%(tenant)s, %(kind)s, %(id)s)", keys)
    return latest


def lock_current(db: Db, tenant_id: str, project_id: str, subject: Subject) -> tuple[Current, Latest | None]:
    """What the project runs of the subject, and Latest. The project knows the subject from now on.

    No event of the subject is accepted there until this transaction ends, and Latest doesn't move.
    """
    keys = keys_of(tenant_id, project_id, subject)
    db.run(_MAKE_SUBJECT, keys)
    latest = _latest(db, keys, "FOR SHARE")
    db.run("SELECT lock_subject(%(tenant)s, %(project)s, %(kind)s, %(id)s)", keys)
    row = db.row(_CURRENT, keys)
    assert row is not None
    version, how, by_kind, by_id, pinned = row
    return Current(version, how, Principal(by_kind, by_id) if by_kind else None, pinned), latest


def _latest(db: Db, keys: Keys, lock: str) -> Latest | None:
    row = db.row(f"{_LATEST} {lock}", keys)
    return Latest(*row) if row is not None and row[0] is not None else None


def set_latest(db: Db, tenant_id: str, subject: Subject, latest: Latest) -> None:
    """Move Latest of the subject, which is locked."""
    db.run(
        "UPDATE subjects SET latest_version = %(version)s, latest_at = %(at)s, latest_deploy_id = %(deploy)s"
        " WHERE tenant_id = %(tenant)s AND kind = %(kind)s AND id = %(id)s",
        keys_of(tenant_id, "", subject) | {"version": latest.version, "deploy": latest.deploy_id, "at": latest.at},
    )


# Reading

_SHOW = """
SELECT coalesce(string_agg(concat(
           '{"subject":{"kind":"', w.subject_kind, '","id":', to_json(w.subject_id), '},"version":', to_json(w.version),
           ',"how":"', w.how, '"', ',"by":' || wire_principal(w.by_kind, w.by_id), ',"at":"', wire_time(w.at),
           '","pinned":', w.pinned::text, '}'), ',' ORDER BY w.subject_kind, w.subject_id), '')
  FROM running w
 WHERE w.tenant_id = %s AND w.project_id = %s AND w.version IS NOT NULL
"""

_HISTORY = """
SELECT coalesce(string_agg(concat(
           '{"subject":{"kind":"', e.subject_kind, '","id":', to_json(e.subject_id), '}',
           ',"version":' || to_json(e.version)::text, ',"how":"', e.how, '"',
           ',"by":' || wire_principal(e.by_kind, e.by_id), ',"at":"', wire_time(e.accepted_at), '"}'), ','
           ORDER BY e.accepted_at DESC, e.subject_kind, e.subject_id, e.seq DESC), '')
  FROM accepted_events e
 WHERE e.tenant_id = %s AND e.project_id = %s AND e.moved
"""


def show(db: Db, tenant_id: str, project_id: str) -> str:
    """What the project runs, a JSON array as the wire shows it."""
    return f"[{db.value(_SHOW, (tenant_id, project_id))}]"


def history(db: Db, tenant_id: str, project_id: str) -> str:
    """What the project ran, newest first, a JSON array as the wire shows it."""
    return f"[{db.value(_HISTORY, (tenant_id, project_id))}]"


def clock(db: Db) -> datetime:
    """The moment that an event gets which takes its place now: the database's time, to the millisecond."""
    moment: datetime = db.value("SELECT date_trunc('milliseconds', clock_timestamp())")
    return moment

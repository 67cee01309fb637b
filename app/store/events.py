"""The accepted log of each subject in each project: events take their places here, and move what runs with them."""

from __future__ import annotations

import hashlib
from datetime import datetime

from app.domain.model import Principal, Subject
from app.domain.running import Current, Decides
from app.store.engine import Db
from app.store.running import keys_of

_DEPLOY = """
INSERT INTO deploys (tenant_id, id, subject_kind, subject_id, version, how, at, accepted_at, by_kind, by_id, moved)
VALUES (%(tenant)s, %(source)s, %(kind)s, %(id)s, %(version)s, %(how)s, %(at)s, %(now)s, %(by_kind)s, %(by_id)s,
        %(moved)s)
"""

_SEE = """
INSERT INTO seen_versions (tenant_id, subject_kind, subject_id, version)
VALUES (%(tenant)s, %(kind)s, %(id)s, %(version)s) ON CONFLICT DO NOTHING
"""

_FIRST_SEEN = """
SELECT version, first_seen FROM seen_versions
 WHERE tenant_id = %(tenant)s AND subject_kind = %(kind)s AND subject_id = %(id)s AND version = ANY(%(versions)s)
"""

_RESOLVE = """
INSERT INTO resolved_corrections (tenant_id, source_id, project_id, correction_id)
SELECT c.tenant_id, %(source)s, c.project_id, c.id
  FROM corrections c
 WHERE c.tenant_id = %(tenant)s AND c.id = ANY(%(ids)s::text[])
   AND c.subject_kind = %(kind)s AND c.subject_id = %(id)s AND c.unregistered_at IS NULL
   AND (%(project)s IS NULL OR c.project_id = %(project)s)
 UNION
SELECT c.tenant_id, %(source)s, c.project_id, c.id
  FROM corrections c
 WHERE c.tenant_id = %(tenant)s AND md5(c.link) = ANY(%(digests)s::text[]) AND c.link = ANY(%(links)s::text[])
   AND c.subject_kind = %(kind)s AND c.subject_id = %(id)s AND c.unregistered_at IS NULL
   AND (%(project)s IS NULL OR c.project_id = %(project)s)
"""

_LATEST_MOVES = """
WITH moved AS (
    UPDATE running w
       SET version = %(version)s, how = 'latest', by_kind = NULL, by_id = NULL, at = %(now)s,
           accepted_seq = accepted_seq + 1
     WHERE w.tenant_id = %(tenant)s AND w.subject_kind = %(kind)s AND w.subject_id = %(id)s AND NOT w.pinned
    RETURNING w.project_id, w.accepted_seq
)
INSERT INTO accepted_events (tenant_id, project_id, subject_kind, subject_id, seq, kind, source_id, accepted_at,
                             version, how, moved, decides, resolves_id)
SELECT %(tenant)s, project_id, %(kind)s, %(id)s, accepted_seq, 'deploy', %(source)s, %(now)s, %(version)s, 'latest',
       true, 'all', %(source)s
  FROM moved RETURNING project_id
"""

_LATEST_RESOLVES = """
WITH named AS (
    UPDATE running w SET accepted_seq = accepted_seq + 1
     WHERE w.tenant_id = %(tenant)s AND w.subject_kind = %(kind)s AND w.subject_id = %(id)s AND NOT w.pinned
       AND EXISTS (SELECT FROM resolved_corrections r
                    WHERE r.tenant_id = w.tenant_id AND r.source_id = %(source)s AND r.project_id = w.project_id)
    RETURNING w.project_id, w.accepted_seq, w.version, w.how, w.by_kind, w.by_id
)
INSERT INTO accepted_events (tenant_id, project_id, subject_kind, subject_id, seq, kind, source_id, accepted_at,
                             version, how, by_kind, by_id, moved, decides, resolves_id)
SELECT %(tenant)s, project_id, %(kind)s, %(id)s, accepted_seq, 'deploy', %(source)s, %(now)s, version, how, by_kind,
       by_id, false, 'named', %(source)s
  FROM named RETURNING project_id
"""

_HERE = """
WITH moved AS (
    UPDATE running w
       SET accepted_seq = accepted_seq + 1, version = %(version)s, how = %(how)s, by_kind = %(by_kind)s,
           by_id = %(by_id)s, pinned = %(pinned)s, at = CASE WHEN %(moved)s THEN %(now)s ELSE w.at END
     WHERE w.tenant_id = %(tenant)s AND w.project_id = %(project)s AND w.subject_kind = %(kind)s
       AND w.subject_id = %(id)s
    RETURNING w.accepted_seq
)
INSERT INTO accepted_events (tenant_id, project_id, subject_kind, subject_id, seq, kind, source_id, accepted_at,
                             version, how, by_kind, by_id, moved, decides, resolves_id)
SELECT %(tenant)s, %(project)s, %(kind)s, %(id)s, accepted_seq, %(event)s, %(source)s, %(now)s, %(version)s, %(how)s,
       %(by_kind)s, %(by_id)s, %(moved)s, %(decides)s, %(resolves)s
  FROM moved RETURNING seq
"""


def add_deploy(
    db: Db,
    tenant_id: str,
    subject: Subject,
    deploy_id: str,
    *,
    how: str,
    at: datetime,
    now: datetime,
    by: Principal,
    moved: bool,
) -> None:
    """Keep a deploy of ``subject``, whose version it names, whether it moves Latest or not."""
    keys = keys_of(tenant_id, "", subject)
    stamps = {"how": how, "at": at, "now": now, "by_kind": by.kind, "by_id": by.id, "moved": moved}
    db.run(_DEPLOY, keys | {"source": deploy_id, "version": subject.version} | stamps)


def see(db: Db, tenant_id: str, subject: Subject) -> None:
    """A deploy or pin names ``subject.version``: remember when that was first."""
    db.run(_SEE, keys_of(tenant_id, "", subject) | {"version": subject.version})


def first_seen(db: Db, tenant_id: str, subject: Subject, versions: list[str | None]) -> dict[str, int]:
    """The order in which those of ``versions`` were first seen that were."""
    return dict(db.rows(_FIRST_SEEN, keys_of(tenant_id, "", subject) | {"versions": versions}))


def resolve(
    db: Db, tenant_id: str, project_id: str | None, subject: Subject, source_id: str, ids: list[str], links: list[str]
) -> bool:
    """Note the live corrections that fit the ``resolves`` of a deploy (of a pin: in its project) as of now.

    ``links`` are JSON texts as they are stored of a correction. Says whether there is any.
    """
    digests = [hashlib.md5(link.encode(), usedforsecurity=False).hexdigest() for link in links]
    params = keys_of(tenant_id, "", subject) | {"project": project_id, "source": source_id}
    return db.run(_RESOLVE, params | {"ids": ids, "links": links, "digests": digests}) > 0


def latest_moves(db: Db, tenant_id: str, subject: Subject, deploy_id: str, now: datetime) -> list[str]:
    """The deploy moves every project that follows Latest to ``subject.version``; those projects' ids, in order."""
    params = keys_of(tenant_id, "", subject) | {"version": subject.version, "source": deploy_id, "now": now}
    return sorted(row[0] for row in db.rows(_LATEST_MOVES, params))


def latest_resolves(db: Db, tenant_id: str, subject: Subject, deploy_id: str, now: datetime) -> list[str]:
    """The deploy of what already is Latest decides in the projects that follow it and where it names corrections."""
    params = keys_of(tenant_id, "", subject) | {"source": deploy_id, "now": now}
    return sorted(row[0] for row in db.rows(_LATEST_RESOLVES, params))


def accept(
    db: Db,
    tenant_id: str,
    project_id: str,
    subject: Subject,
    *,
    kind: str,
    source_id: str,
    now: datetime,
    after: Current,
    moved: bool,
    decides: Decides,
    resolves_id: str | None = None,
) -> int:
    """Give an event of one project its place in the locked log, ``after`` being what the project runs then.

    Its ``seq`` comes back.
    """
    running = {
        "version": after.version, "how": after.how, "by_kind": after.by.kind if after.by else None,
        "by_id": after.by.id if after.by else None, "pinned": after.pinned,
    }  # fmt: skip
    event = {
        "event": kind, "source": source_id, "now": now, "moved": moved, "decides": decides, "resolves": resolves_id
    }  # fmt: skip
    seq: int = db.value(_HERE, keys_of(tenant_id, project_id, subject) | running | event)
    return seq

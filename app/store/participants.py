"""Participants' tokens, and what they may read. Of a secret only its SHA-256 is stored."""

from __future__ import annotations

from datetime import datetime

from app.domain.model import Caller, Participant, Principal, ProjectRef
from app.store.corrections import ShownCorrection, participant_digest
from app.store.engine import Db
from app.store.ids import new_id
from app.store.tokens import KnownToken, digest, grants_of
from app.store.upkeep import BATCH

_RUN = """
SELECT p.id, p.org_id, r.erased_at IS NOT NULL
  FROM runs r JOIN projects p ON p.tenant_id = r.tenant_id AND p.id = r.project_id
 WHERE r.tenant_id = %s AND r.id = %s
"""


def run_asked_about(db: Db, tenant_id: str, run_id: str) -> tuple[ProjectRef, bool] | None:
    """The project of a run, finished or not, and whether its content was erased."""
    row = db.row(_RUN, (tenant_id, run_id))
    return None if row is None else (ProjectRef(row[0], row[1]), row[2])


_ADD = """
INSERT INTO participant_tokens (tenant_id, id, sha256, made_with, run_id, participant_id, participant_sha256,
                                created_at, expires_at)
SELECT m.tenant_id, %(id)s, %(sha256)s, m.id, %(run)s, %(participant)s, %(participant_sha256)s, t.now,
       least(t.now + %(seconds)s * interval '1 second', m.expires_at)
  FROM tokens m CROSS JOIN (SELECT date_trunc('milliseconds', clock_timestamp()) AS now) t
 WHERE m.tenant_id = %(tenant)s AND m.id = %(made_with)s
RETURNING expires_at
"""


def add(db: Db, maker: Caller, secret: str, participant: Participant, seconds: int) -> datetime:
    """Store a token for ``participant`` that ``maker`` makes; when it expires, at the latest with the maker's own."""
    expires_at: datetime = db.value(
        _ADD,
        {
            "tenant": maker.tenant_id,
            "id": new_id(),
            "sha256": digest(secret),
            "made_with": maker.token_id,
            "run": participant.run_id,
            "participant": participant.participant_id,
            "participant_sha256": participant_digest(participant.participant_id),
            "seconds": seconds,
        },
    )
    return expires_at


_BY_SECRET = """
SELECT p.tenant_id, p.id, m.principal_kind, m.principal_id, m.role, m.grants, p.run_id, p.participant_id,
       least(p.expires_at, m.expires_at) <= clock_timestamp(), m.revoked_at IS NOT NULL
  FROM participant_tokens p JOIN tokens m ON m.tenant_id = p.tenant_id AND m.id = p.made_with
 WHERE p.sha256 = %s
"""


def by_secret(db: Db, secret: str) -> KnownToken | None:
    """The participant's token with that secret, in whichever tenant it is; it ends with the token that made it."""
    row = db.row(_BY_SECRET, (digest(secret),))
    if row is None:
        return None
    tenant_id, token_id, kind, principal_id, role, grants, run_id, participant_id, expired, revoked = row
    caller = Caller(
        tenant_id,
        Principal(kind, principal_id),
        token_id,
        role,
        grants_of(grants),
        participant=Participant(run_id, participant_id),
    )
    return KnownToken(caller, expired, revoked)


_CORRECTION = """
SELECT correction_json(c), c.version, c.project_id, p.org_id
  FROM corrections c
  JOIN projects p ON p.tenant_id = c.tenant_id AND p.id = c.project_id
 WHERE c.tenant_id = %(tenant)s AND c.id = %(id)s AND c.run_id = %(run)s
   AND c.participant_sha256 = %(participant)s AND c.participant_id IS NOT NULL
   AND c.made_by_kind = %(kind)s AND c.made_by_id = %(maker)s
"""


def correction(db: Db, caller: Caller, participant: Participant, correction_id: str) -> ShownCorrection | None:
    """The correction, live or not, without its copy, if it is one that ``participant``'s token records."""
    row = db.row(
        _CORRECTION,
        {
            "tenant": caller.tenant_id,
            "id": correction_id,
            "run": participant.run_id,
            "participant": participant_digest(participant.participant_id),
            "kind": caller.principal.kind,
            "maker": caller.principal.id,
        },
    )
    return None if row is None else ShownCorrection(row[0], row[1], ProjectRef(row[2], row[3]))


_PURGE = """
DELETE FROM participant_tokens p
 USING (SELECT tenant_id, id FROM participant_tokens
         WHERE expires_at <= now() - interval '1 hour' ORDER BY expires_at LIMIT %(batch)s
           FOR UPDATE SKIP LOCKED) old
 WHERE p.tenant_id = old.tenant_id AND p.id = old.id
"""


def purge(db: Db) -> bool:
    """Delete tokens that expired an hour ago (until then they are told so); true if there may be more."""
    return db.run(_PURGE, {"batch": BATCH}) == BATCH


def forget(db: Db, tenant_id: str, participant_id: str) -> int:
    """Delete all tokens of a participant, whose ids they hold; how many."""
    return db.run(
        "DELETE FROM participant_tokens WHERE tenant_id = %s AND participant_sha256 = %s",
        (tenant_id, participant_digest(participant_id)),
    )

"""Answers kept under an idempotency key. The lock on a key dies with its transaction, so no key stays stuck."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from datetime import datetime

from app.domain.model import Caller
from app.store.engine import Db


@dataclass(frozen=True, slots=True)
class KeptAnswer:
    """The answer of a request that took effect. ``body`` is ``None`` when it was withheld; ``body_sha256``, of the
    request, is empty when an erasure withheld it."""

    body_sha256: bytes
    status: int
    content_type: str
    body: bytes | None
    headers: dict[str, str]
    at: datetime


def key_digest(caller: Caller, method: str, path: str, key: str) -> bytes:
    """What a key is stored under: its scope within the tenant, hashed.

    Participants share their maker's principal, so each has a scope of their own; a new token goes on in it.
    """
    scope = [caller.principal.kind, caller.principal.id, method, path, key]
    if caller.participant is not None:
        scope += [caller.participant.run_id, caller.participant.participant_id]
    return hashlib.sha256(json.dumps(scope).encode()).digest()


_KEEP = """
INSERT INTO idempotency_answers (tenant_id, key_sha256, body_sha256, status, content_type, body, headers, withheld,
                                 at, expires_at)
VALUES (%(tenant)s, %(key)s, %(body_sha256)s, %(status)s, %(content_type)s, %(body)s, %(headers)s, %(withheld)s,
        clock_timestamp(), clock_timestamp() + interval '24 hours')
ON CONFLICT (tenant_id, key_sha256) DO UPDATE
   SET body_sha256 = excluded.body_sha256, status = excluded.status, content_type = excluded.content_type,
       body = excluded.body, headers = excluded.headers, withheld = excluded.withheld, at = excluded.at,
       expires_at = excluded.expires_at
"""


def begin(db: Db, tenant_id: str, key: bytes) -> tuple[bool, KeptAnswer | None]:
    """Take the key until the transaction ends, and read what is kept under it.

    ``(False, None)`` when another transaction holds the key.
    """
    row = db.row("SELECT * FROM idempotency_begin(%s, %s)", (tenant_id, key))
    assert row is not None
    locked, body_sha256, status, content_type, body, headers, withheld, at = row
    if body_sha256 is None:
        return bool(locked), None
    content = None if withheld else bytes(body)
    return True, KeptAnswer(bytes(body_sha256), status, content_type or "", content, json.loads(headers or "{}"), at)


def keep(db: Db, tenant_id: str, key: bytes, answer: KeptAnswer) -> None:
    """Keep ``answer`` for a day, in the transaction of the change that it speaks of."""
    db.run(
        _KEEP,
        {
            "tenant": tenant_id,
            "key": key,
            "body_sha256": answer.body_sha256,
            "status": answer.status,
            "content_type": answer.content_type,
            "body": answer.body,
            "headers": json.dumps(answer.headers),
            "withheld": answer.body is None,
        },
    )

"""Messages to endpoints, and which words each of them tells. How they are sent is in ``sending.py``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime

from app.domain.endpoints import Endpoint
from app.domain.messages import Word, together
from app.store.engine import Db
from app.store.ids import new_id

BATCH = 1000
"""Rows deleted at once."""

_KNOWN = """
SELECT word_sha256 FROM delivery_words
 WHERE tenant_id = %(tenant)s AND endpoint_id = %(endpoint)s AND word_sha256 = ANY (%(keys)s::bytea[])
"""
_JOIN = """
INSERT INTO delivery_words (tenant_id, endpoint_id, word_sha256, delivery_id, type, at, body, stands_for)
SELECT %(tenant)s, %(endpoint)s, decode(n.key, 'hex'), %(delivery)s, n.type, n.at, n.body, n.stands_for
  FROM json_to_recordset(%(words)s) AS n(key text, type text, at timestamptz, body text, stands_for integer)
ON CONFLICT DO NOTHING
"""
_EACH_ALONE = """
WITH fresh AS (
    INSERT INTO delivery_words (tenant_id, endpoint_id, word_sha256, delivery_id, type, at)
    SELECT %(tenant)s, %(endpoint)s, decode(n.key, 'hex'), n.delivery, n.type, n.at
      FROM json_to_recordset(%(words)s) AS n(key text, delivery text, type text, at timestamptz)
    ON CONFLICT DO NOTHING RETURNING delivery_id)
INSERT INTO deliveries (tenant_id, id, endpoint_id, type, body, due_at)
SELECT %(tenant)s, n.delivery, %(endpoint)s, n.type, n.body, clock_timestamp()
  FROM json_to_recordset(%(words)s) AS n(delivery text, type text, body text)
  JOIN fresh ON fresh.delivery_id = n.delivery
"""


def add(db: Db, tenant_id: str, endpoint: Endpoint, words: Sequence[Word], most_bodies: int) -> None:
    """Deliver ``words`` to ``endpoint``: into the message that collects them, or each alone if it wants no digest.

    What it was told before adds nothing. Bodies past the first ``most_bodies`` are counted, not kept.
    """
    keys = [word.sha256 for word in words]
    known = db.rows(_KNOWN, {"tenant": tenant_id, "endpoint": endpoint.id, "keys": keys})
    told = {bytes(row[0]) for row in known}
    fresh = [word for word in words if word.sha256 not in told]
    if not fresh:
        return
    alone = endpoint.digest_seconds == 0
    if alone and any(word.stands_for > 1 for word in fresh):
        fresh = [together(fresh)]
    values = {"tenant": tenant_id, "endpoint": endpoint.id, "words": _rows(fresh, None if alone else most_bodies)}
    if alone:
        db.run(_EACH_ALONE, values)
        return
    opened = (tenant_id, endpoint.id, endpoint.digest_seconds, new_id(), fresh[0].type)
    values["delivery"] = db.value("SELECT open_digest(%s, %s, %s, %s, %s)", opened)
    db.run(_JOIN, values)


def _rows(words: Sequence[Word], most_bodies: int | None) -> str:
    return json.dumps(
        [
            {
                "key": word.sha256.hex(),
                "delivery": new_id(),
                "type": word.type,
                "at": word.at.isoformat(),
                "body": word.body if word.stands_for == 1 and (most_bodies is None or place < most_bodies) else None,
                "stands_for": word.stands_for,
            }
            for place, word in enumerate(words)
        ]
    )


def add_message(db: Db, tenant_id: str, endpoint_id: str, type: str, body: str) -> str:
    """Deliver one message that is no word's, at once. Its id."""
    delivery_id = new_id()
    db.run(
        "INSERT INTO deliveries (tenant_id, id, endpoint_id, type, body, due_at)"
        " VALUES (%s, %s, %s, %s, %s, clock_timestamp())",
        (tenant_id, delivery_id, endpoint_id, type, body),
    )
    return delivery_id


def show(db: Db, tenant_id: str, endpoint_id: str, delivery_id: str) -> str | None:
    """The delivery's JSON."""
    row = db.row(
        "SELECT delivery_json(d) FROM deliveries d WHERE d.tenant_id = %s AND d.endpoint_id = %s AND d.id = %s",
        (tenant_id, endpoint_id, delivery_id),
    )
    return None if row is None else str(row[0])


_NEWEST = """
SELECT d.created_at, d.id, delivery_json(d) FROM deliveries d
 WHERE d.tenant_id = %(tenant)s AND d.endpoint_id = %(endpoint)s
   AND (%(at)s::timestamptz IS NULL OR (d.created_at, d.id) < (%(at)s, %(last)s))
 ORDER BY d.created_at DESC, d.id DESC LIMIT %(count)s
"""


def newest(
    db: Db, tenant_id: str, endpoint_id: str, count: int, position: tuple[datetime, str] | None
) -> list[tuple[datetime, str, str]]:
    """Up to ``count`` deliveries after ``position``, newest first: each with its time, id and JSON."""
    at, last = position or (None, None)
    rows = db.rows(_NEWEST, {"tenant": tenant_id, "endpoint": endpoint_id, "at": at, "last": last, "count": count})
    return [(row[0], row[1], row[2]) for row in rows]


def again(db: Db, tenant_id: str, endpoint_id: str, delivery_id: str) -> bool:
    """Make a delivery due now, as if it had never been tried; false if there is none. One on its way stays so."""
    count = db.run(
        "UPDATE deliveries SET status = 'pending', due_at = clock_timestamp(), tries = 0, first_tried_at = NULL,"
        " ended_at = NULL WHERE tenant_id = %s AND endpoint_id = %s AND id = %s",
        (tenant_id, endpoint_id, delivery_id),
    )
    return count == 1


def hasten(db: Db, tenant_id: str, endpoint_id: str, digest_seconds: int) -> None:
    """Have a message that still collects go out ``digest_seconds`` after its first word, unless it does sooner."""
    db.run(
        "UPDATE deliveries SET due_at = least(due_at, created_at + make_interval(secs => %s))"
        " WHERE tenant_id = %s AND endpoint_id = %s AND collecting",
        (digest_seconds, tenant_id, endpoint_id),
    )


def give_up(db: Db, tenant_id: str, endpoint_id: str) -> None:
    """Fail all that waits for an endpoint that takes nothing any more."""
    db.run(
        "UPDATE deliveries SET status = 'failed', ended_at = clock_timestamp(), collecting = false"
        " WHERE tenant_id = %s AND endpoint_id = %s AND status = 'pending'",
        (tenant_id, endpoint_id),
    )


_PURGE = """
DELETE FROM deliveries d USING (
    SELECT tenant_id, id FROM deliveries WHERE ended_at < now() - %(days)s * interval '1 day'
     ORDER BY ended_at LIMIT %(batch)s FOR UPDATE SKIP LOCKED) old
 WHERE d.tenant_id = old.tenant_id AND d.id = old.id
"""


def purge(db: Db, days: int) -> bool:
    """Delete deliveries, of all tenants, that ended over ``days`` days ago; true if there may be more."""
    return db.run(_PURGE, {"days": days, "batch": BATCH}) == BATCH


_GIVE_UP_STRAYS = """
UPDATE deliveries d SET status = 'failed', ended_at = clock_timestamp(), collecting = false
  FROM notification_endpoints e
 WHERE e.tenant_id = d.tenant_id AND e.id = d.endpoint_id AND d.status = 'pending'
   AND (e.unregistered_at IS NOT NULL OR e.ended_at IS NOT NULL)
"""


def give_up_strays(db: Db) -> bool:
    """Fail what came to wait, in any tenant, while its endpoint was taken out of use; false: it is done."""
    db.run(_GIVE_UP_STRAYS)
    return False

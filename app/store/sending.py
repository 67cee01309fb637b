"""Messages on their way: taken when due under a lease, logged at every attempt, ended once."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal

from app.domain.endpoints import EndpointKind
from app.store.engine import Db

LEASE_SECONDS = 60
"""How long one attempt holds a delivery: well over what an attempt can take."""

AT_ONCE = 2
"""Messages on their way to one endpoint at a time; one, while it is failing."""


@dataclass(frozen=True, slots=True)
class Taken:
    """A delivery under our lease, with its endpoint's sealed things. ``body`` is ``None`` before the first attempt."""

    at: datetime
    tenant_id: str
    delivery_id: str
    endpoint_id: str
    type: str
    body: str | None
    tries: int
    lease: int
    failing: bool
    kind: EndpointKind
    target: str
    target_sealed: bytes | None
    secret_sealed: bytes | None
    former_secret_sealed: bytes | None
    """Only while it still signs."""


# Walks from endpoint to endpoint along an index, and looks at the first messages of each alone: what one endpoint has
# waiting costs the others nothing, nor does what isn't due yet (by the statement's time: an index can't be searched for
# the clock's). A message that is leased keeps its place, and so counts among those at once.
_TAKE = """
WITH RECURSIVE waiting AS (
    (SELECT tenant_id, endpoint_id FROM deliveries WHERE status = 'pending' ORDER BY tenant_id, endpoint_id LIMIT 1)
    UNION ALL
    SELECT n.tenant_id, n.endpoint_id FROM waiting w CROSS JOIN LATERAL (
        SELECT d.tenant_id, d.endpoint_id FROM deliveries d
         WHERE d.status = 'pending' AND (d.tenant_id, d.endpoint_id) > (w.tenant_id, w.endpoint_id)
         ORDER BY d.tenant_id, d.endpoint_id LIMIT 1) n
), queue AS (
    SELECT first.*, e.failing_since IS NOT NULL AS failing
      FROM waiting w
      JOIN notification_endpoints e ON e.tenant_id = w.tenant_id AND e.id = w.endpoint_id
       AND e.unregistered_at IS NULL AND e.ended_at IS NULL
     CROSS JOIN LATERAL (
        SELECT d.tenant_id, d.id, d.due_at, coalesce(d.leased_until > clock_timestamp(), false) AS leased,
               row_number() OVER (ORDER BY d.due_at, d.id) AS turn
          FROM deliveries d
         WHERE d.tenant_id = w.tenant_id AND d.endpoint_id = w.endpoint_id AND d.status = 'pending'
           AND d.due_at <= statement_timestamp()
         ORDER BY d.due_at, d.id LIMIT %(at_once)s) first
), picked AS (
    SELECT d.tenant_id, d.id FROM queue q JOIN deliveries d ON d.tenant_id = q.tenant_id AND d.id = q.id
     WHERE NOT q.leased AND NOT (q.failing AND (q.turn > 1 OR %(healthy)s))
       AND d.status = 'pending' AND (d.leased_until IS NULL OR d.leased_until <= clock_timestamp())
     ORDER BY q.turn, q.due_at LIMIT 1
       FOR UPDATE OF d SKIP LOCKED
)
UPDATE deliveries d
   SET lease = d.lease + 1, leased_until = clock_timestamp() + make_interval(secs => %(lease)s),
       first_tried_at = coalesce(d.first_tried_at, clock_timestamp()), collecting = false
  FROM picked k, notification_endpoints e
 WHERE d.tenant_id = k.tenant_id AND d.id = k.id AND e.tenant_id = d.tenant_id AND e.id = d.endpoint_id
RETURNING clock_timestamp(), d.tenant_id, d.id, d.endpoint_id, d.type, d.body, d.tries, d.lease,
          e.failing_since IS NOT NULL, e.kind, e.target, e.target_sealed, e.secret_sealed,
          CASE WHEN e.former_secret_until > clock_timestamp() THEN e.former_secret_sealed END
"""


def take(db: Db, *, healthy: bool = False) -> Taken | None:
    """Lease the delivery whose turn it is, of whichever tenant, or ``None``: endpoints take turns.

    ``healthy``: only of endpoints whose last attempt went well, so that receivers that hang can't hold everybody.
    """
    row = db.row(_TAKE, {"at_once": AT_ONCE, "healthy": healthy, "lease": LEASE_SECONDS})
    return None if row is None else Taken(*row[:11], *map(_bytes, row[11:]))


def _bytes(value: Any) -> bytes | None:
    return None if value is None else bytes(value)


def collected(db: Db, tenant_id: str, delivery_id: str, most: int) -> tuple[int, list[str], str]:
    """What a message collected: how many events, the bodies of the first ``most``, the type of the first."""
    rows = db.rows(
        "SELECT sum(stands_for) OVER (), body, type FROM delivery_words WHERE tenant_id = %s AND delivery_id = %s"
        " ORDER BY body IS NULL, at, word_sha256 LIMIT %s",
        (tenant_id, delivery_id, most),
    )
    bodies = [row[1] for row in rows if row[1] is not None]
    return (rows[0][0], bodies, rows[0][2]) if rows else (0, [], "")


def fix_body(db: Db, tenant_id: str, delivery_id: str, type: str, body: str) -> None:
    """Write what a message says, for all its attempts; the bodies that it was made from go."""
    db.run(
        "WITH made AS (UPDATE delivery_words SET body = NULL"
        " WHERE tenant_id = %(tenant)s AND delivery_id = %(id)s AND body IS NOT NULL)"
        "UPDATE deliveries SET type = %(type)s, body = %(body)s WHERE tenant_id = %(tenant)s AND id = %(id)s",
        {"tenant": tenant_id, "id": delivery_id, "type": type, "body": body},
    )


def drop(db: Db, tenant_id: str, delivery_id: str) -> None:
    """Delete a message that turned out to say nothing."""
    db.run("DELETE FROM deliveries WHERE tenant_id = %s AND id = %s", (tenant_id, delivery_id))


def log_attempt(db: Db, tenant_id: str, delivery_id: str, status: int | None, error: str | None) -> None:
    """Add an attempt to the log."""
    db.run(
        "INSERT INTO delivery_attempts (tenant_id, delivery_id, status, error) VALUES (%s, %s, %s, %s)",
        (tenant_id, delivery_id, status, error),
    )


@dataclass(frozen=True, slots=True)
class Held:
    """What recording an attempt needs to know: who holds the delivery now, and how its endpoint fares."""

    pending: bool
    lease: int
    first_tried_at: datetime | None
    last_success_at: datetime | None


def hold(db: Db, tenant_id: str, delivery_id: str) -> Held | None:
    """Lock a delivery and, before it, its endpoint. ``None`` if it was purged."""
    endpoint = db.row(
        "SELECT e.last_success_at FROM notification_endpoints e WHERE e.tenant_id = %(tenant)s AND e.id ="
        " (SELECT endpoint_id FROM deliveries WHERE tenant_id = %(tenant)s AND id = %(id)s) FOR NO KEY UPDATE",
        {"tenant": tenant_id, "id": delivery_id},
    )
    row = db.row(
        "SELECT status = 'pending', lease, first_tried_at FROM deliveries WHERE tenant_id = %s AND id = %s FOR UPDATE",
        (tenant_id, delivery_id),
    )
    return None if row is None or endpoint is None else Held(row[0], row[1], row[2], endpoint[0])


def end(db: Db, tenant_id: str, delivery_id: str, status: Literal["delivered", "failed"]) -> None:
    """End a delivery."""
    db.run(
        "UPDATE deliveries SET status = %s, ended_at = clock_timestamp(), leased_until = NULL, tries = tries + 1"
        " WHERE tenant_id = %s AND id = %s",
        (status, tenant_id, delivery_id),
    )


def retry(db: Db, tenant_id: str, delivery_id: str, wait: timedelta) -> None:
    """Let a delivery wait to be tried again."""
    db.run(
        "UPDATE deliveries SET due_at = clock_timestamp() + %s, leased_until = NULL, tries = tries + 1"
        " WHERE tenant_id = %s AND id = %s",
        (wait, tenant_id, delivery_id),
    )


def note_success(db: Db, tenant_id: str, endpoint_id: str) -> None:
    """Note that an endpoint took a message."""
    db.run(
        "UPDATE notification_endpoints SET last_success_at = clock_timestamp(), failing_since = NULL"
        " WHERE tenant_id = %s AND id = %s",
        (tenant_id, endpoint_id),
    )


def note_failure(db: Db, tenant_id: str, endpoint_id: str) -> None:
    """Note that an endpoint took no message."""
    db.run(
        "UPDATE notification_endpoints SET failing_since = clock_timestamp()"
        " WHERE tenant_id = %s AND id = %s AND failing_since IS NULL",
        (tenant_id, endpoint_id),
    )


def next_due(db: Db) -> float | None:
    """In how many seconds the next message of any tenant is due: 0 or less when one is, ``None`` if none waits."""
    seconds = db.value(
        "SELECT extract(epoch FROM min(due_at) - clock_timestamp())::float8 FROM deliveries WHERE status = 'pending'"
    )
    return None if seconds is None else float(seconds)

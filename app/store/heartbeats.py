"""When each kind of process was last seen at work, for those who look after the service."""

from __future__ import annotations

from app.store.engine import Db


def beat(db: Db, name: str) -> None:
    """``name`` is at work now: ``relay``, or ``sweep`` (for it to run, beat, broker and a worker must be up)."""
    db.run(
        "INSERT INTO heartbeats (name, at) VALUES (%s, clock_timestamp())"
        " ON CONFLICT (name) DO UPDATE SET at = excluded.at",
        (name,),
    )


def seconds_since(db: Db) -> dict[str, float]:
    """How long ago each was seen, in seconds; one that never was isn't in it."""
    return dict(db.rows("SELECT name, extract(epoch FROM clock_timestamp() - at)::float8 FROM heartbeats"))

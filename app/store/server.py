"""What the database server says of itself, for those who look after it."""

from __future__ import annotations

from dataclasses import dataclass

from app.store.engine import Db


@dataclass(frozen=True, slots=True)
class Server:
    """``number`` is the version as PostgreSQL counts: 140005 is 14.5. ``now`` is its clock, in seconds since 1970."""

    number: int
    version: str
    now: float
    connections: int
    most_connections: int


_ASK = """
SELECT current_setting('server_version_num')::int, current_setting('server_version'),
       extract(epoch FROM clock_timestamp())::float8,
       (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'),
       current_setting('max_connections')::int
"""


def ask(db: Db) -> Server:
    """The server behind ``db``."""
    row = db.row(_ASK)
    assert row is not None
    return Server(*row)

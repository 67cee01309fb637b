"""Who waits for whom in the database."""

from __future__ import annotations

from sqlalchemy import Engine

from app.store.engine import reading


def blocked(engine: Engine) -> bool:
    """Whether anybody waits for a lock."""
    with reading(engine) as db:
        return bool(
            db.value(
                "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
                " AND datname = current_database())"
            )
        )

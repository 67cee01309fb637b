"""The one clock of all processes: PostgreSQL's."""

from __future__ import annotations

from datetime import datetime

from app.store.engine import Db


def now(db: Db) -> datetime:
    """The time, to the millisecond."""
    moment: datetime = db.value("SELECT clock_timestamp()::timestamptz(3)")
    return moment

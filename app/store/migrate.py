"""Brings a database to this code's schema, under a lock, and says how far one is."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import psycopg2
import sqlalchemy
from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, text

from app.store.engine import Db, plain_url

_LOCK = 0x636F727269670001
"""Key of the advisory lock that one migration holds; it dies with its connection."""


class NewerDatabase(Exception):
    """The database was migrated by newer code. The message is one line for an operator."""


@dataclass(frozen=True, slots=True)
class Schema:
    """``current`` is ``None`` for an empty database."""

    current: str | None
    head: str

    @property
    def ready(self) -> bool:
        return self.current == self.head


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    config.set_main_option("path_separator", "os")
    return config


@cache
def head() -> str:
    """The revision that this code needs."""
    revision = ScriptDirectory.from_config(_config()).get_current_head()
    assert revision is not None
    return revision


def schema_of(db: Db) -> Schema:
    """How far the database behind ``db`` is."""
    known = db.value("SELECT to_regclass('alembic_version') IS NOT NULL")
    current = db.value("SELECT version_num FROM alembic_version") if known else None
    return Schema(current, head())


def migrate(url: str) -> Schema:
    """Bring the database at ``url`` to ``head``. Waits while another process does the same.

    :raises NewerDatabase: if the database is ahead of this code.
    :raises psycopg2.OperationalError: if it can't be reached.
    """
    engine = sqlalchemy.create_engine(
        "postgresql+psycopg2://",
        creator=lambda: psycopg2.connect(plain_url(url), connect_timeout=5),
        poolclass=sqlalchemy.NullPool,
    )
    with engine.connect() as guard:
        guard.execute(text("SELECT pg_advisory_lock(:key)"), {"key": _LOCK})
        guard.commit()
        with engine.connect() as connection:
            return _upgrade(connection)


def _upgrade(connection: Connection) -> Schema:
    config = _config()
    _refuse_newer(connection, ScriptDirectory.from_config(config))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
    connection.commit()
    return Schema(head(), head())


def _refuse_newer(connection: Connection, scripts: ScriptDirectory) -> None:
    if not connection.scalar(text("SELECT to_regclass('alembic_version') IS NOT NULL")):
        return
    current = connection.scalar(text("SELECT version_num FROM alembic_version"))
    connection.rollback()
    known = {script.revision for script in scripts.walk_revisions()}
    if current is not None and current not in known:
        raise NewerDatabase(
            f"The database is at revision {current}, which this version of Corrigenda does not know: "
            "run the newer version that migrated it."
        )

"""What every command does to its database before it starts."""

from __future__ import annotations

import os
from pathlib import Path

from sqlalchemy import Engine

from app.config import Settings, read_settings
from app.data_folder import DataFolder
from app.failure import Failure
from app.services.issue_tokens import ensure_bootstrap_token
from app.store.engine import create_engine, reading
from app.store.migrate import Schema, migrate, schema_of
from app.transaction import transaction


def settings_with_database() -> Settings:
    """The settings of a command that needs a database.

    :raises Failure: if none is set.
    """
    settings = read_settings(os.environ)
    if not settings.database_url:
        raise Failure(
            "DATABASE_URL isn't set: give it the address of a PostgreSQL database,"
            " or run `corrigenda up`, which brings its own."
        )
    return settings


def prepare(settings: Settings) -> None:
    """Migrate the database unless it is as this code needs it, and make sure of the bootstrap token.

    Any number of processes may do this at once.
    """
    engine = create_engine(settings.database_url, pool_size=1, application_name="corrigenda-start")
    try:
        if not _schema(engine).ready:
            migrate(settings.database_url)
        if settings.bootstrap_token:
            with transaction(engine) as tx:
                ensure_bootstrap_token(tx, settings.bootstrap_token)
    finally:
        engine.dispose()


def _schema(engine: Engine) -> Schema:
    with reading(engine) as db:
        return schema_of(db)


def address_in(data: Path | None, settings: Settings) -> str:
    """The database of ``data`` when that is named; else ``DATABASE_URL``; else that of the default data folder."""
    if data is None and settings.database_url:
        return settings.database_url
    note = DataFolder(data or Path(settings.data)).database_url
    try:
        return note.read_text("utf-8").strip()
    except OSError as error:
        if data is None:
            raise Failure(
                "DATABASE_URL isn't set: set it, or name the folder of `corrigenda up` with --data."
            ) from error
        raise Failure(f"{note} can't be read ({error.strerror}): has `corrigenda up` run with this folder?") from error

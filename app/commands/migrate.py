"""``corrigenda migrate``."""

from __future__ import annotations

import click

from app.commands.database import settings_with_database
from app.store import migrate as schema


@click.command()
def migrate() -> None:
    """Bring the database to this version's schema.

    Waits while another process does the same, and goes on where one that was killed stopped.
    """
    done = schema.migrate(settings_with_database().database_url)
    click.echo(f"The database is at revision {done.current}.")

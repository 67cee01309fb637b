"""``corrigenda token``: tokens without a token, for whoever can reach the database."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

import click

from app.commands.database import address_in
from app.config import read_settings
from app.failure import Failure
from app.services.issue_tokens import Wanted, issue_token
from app.store import tokens
from app.store.engine import create_engine
from app.store.migrate import schema_of
from app.transaction import transaction

_LONGEST_ID = 128


@click.group()
def token() -> None:
    """Make tokens."""


@token.command()
@click.option("--tenant", required=True, metavar="ID", help="The tenant; made if it is new.")
@click.option("--name", required=True, help="What the token is for.")
@click.option("--role", required=True, type=click.Choice(["admin", "member"]), help="An admin may do everything.")
@click.option("--data", type=click.Path(path_type=Path), help="Folder of `corrigenda up` (default: DATABASE_URL).")
def create(tenant: str, name: str, role: Literal["admin", "member"], data: Path | None) -> None:
    """Make a token and print it: the last word of the output. It is shown this once."""
    for option, value in (("--tenant", tenant), ("--name", name)):
        if not 1 <= len(value) <= _LONGEST_ID or not value.isprintable() or not value.strip():
            raise Failure(f"{option} must have 1 to {_LONGEST_ID} printable characters.")
    engine = create_engine(address_in(data, read_settings(os.environ)), pool_size=1, application_name="corrigenda")
    with transaction(engine) as tx:
        if not schema_of(tx).ready:
            raise Failure("The database isn't at this version's schema: run `corrigenda migrate` first.")
        tokens.ensure_tenant(tx, tenant)
        made, secret = issue_token(tx, tenant, Wanted(name, role))
    click.echo(f"Token {made.token_id} of tenant {tenant}, role {role}:\n{secret}")

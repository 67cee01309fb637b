"""``corrigenda openapi``."""

from __future__ import annotations

import json

import click

from app.api.openapi import document
from app.wsgi import routes


@click.command()
def openapi() -> None:
    """Print the service's OpenAPI 3.1 document. Needs neither settings nor a database."""
    shown = document(route for route in routes() if not route.hidden)
    click.echo(json.dumps(shown, indent=2, ensure_ascii=False))

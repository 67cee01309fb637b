"""``corrigenda export``: corrections out of a running service, into a file or to standard output."""

from __future__ import annotations

from pathlib import Path

import click

from app.commands.download import download, named
from app.commands.services import of_service, service


@click.command()
@click.option("--format", "shape", type=click.Choice(["jsonl", "csv"]), default="jsonl", show_default=True)
@click.option("--filter", "filters", multiple=True, metavar="NAME=VALUE", help="A filter of the list: status=open.")
@click.option("--output", type=click.Path(dir_okay=False, path_type=Path), help="A file (default: standard output).")
@of_service
def export(shape: str, filters: tuple[str, ...], output: Path | None, url: str | None, token: str | None) -> None:
    """Download corrections, newest first."""
    with service(url, token) as remote:
        download(remote, "/v1/corrections/export", [("format", shape), *named(filters)], output)

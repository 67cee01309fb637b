"""``corrigenda export``: corrections out of a running service, into a file or to standard output."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from app.commands.services import of_service, service
from app.failure import Failure


@click.command()
@click.option("--format", "shape", type=click.Choice(["jsonl", "csv"]), default="jsonl", show_default=True)
@click.option("--filter", "filters", multiple=True, metavar="NAME=VALUE", help="A filter of the list: status=open.")
@click.option("--output", type=click.Path(dir_okay=False, path_type=Path), help="A file (default: standard output).")
@of_service
def export(shape: str, filters: tuple[str, ...], output: Path | None, url: str | None, token: str | None) -> None:
    """Download corrections, newest first."""
    params = [("format", shape)]
    for text in filters:
        name, equals, value = text.partition("=")
        if not equals:
            raise Failure(f"--filter {text} isn't NAME=VALUE.")
        params.append((name, value))
    with service(url, token) as remote, remote.streamed("/v1/corrections/export", params) as pieces:
        if output is None:
            for piece in pieces:
                sys.stdout.buffer.write(piece)
            sys.stdout.buffer.flush()
            return
        fresh = output.with_name(output.name + ".part")
        with fresh.open("wb") as file:
            file.writelines(pieces)
        fresh.replace(output)

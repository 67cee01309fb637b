"""``corrigenda test-set``: corrected runs as cases, for the test runner of a pipeline."""

from __future__ import annotations

from pathlib import Path

import click

from app.commands.download import download, named
from app.commands.services import of_service, service

_FORMATS = ["jsonl", "openai-evals", "promptfoo", "inspect"]


@click.group()
def test_set() -> None:
    """Corrected runs as cases for a test runner."""


@test_set.command()
@click.option("--format", "shape", type=click.Choice(_FORMATS), default="jsonl", show_default=True)
@click.option("--filter", "filters", multiple=True, metavar="NAME=VALUE", help="Which runs: agentId=support.")
@click.option("--output", type=click.Path(dir_okay=False, path_type=Path), help="A file (default: standard output).")
@of_service
def export(shape: str, filters: tuple[str, ...], output: Path | None, url: str | None, token: str | None) -> None:
    """Download a test set, newest first."""
    with service(url, token) as remote:
        download(remote, "/v1/test-sets/export", [("format", shape), *named(filters)], output)

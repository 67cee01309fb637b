"""``corrigenda worker``, ``relay`` and ``beat``: everything that happens after a request was answered."""

from __future__ import annotations

import click

from app import log, metrics
from app.commands.database import prepare, settings_with_database
from app.config import Settings
from app.failure import Failure
from workers.celery import Work, run_beat, run_worker
from workers.relay import run_relay


@click.command()
@click.option("--only", type=click.Choice(["jobs", "improve"]), help="Our own jobs, or handing over to Improve.")
def worker(only: Work | None) -> None:
    """Do what follows from corrections: contexts, queues, notices. Any number may run.

    Hands what waits for Improve to CORRIGENDA_IMPROVE_URL, or to an installed improver, if there is one. Where that
    may take long, keep workers of its own to it with --only.
    """
    run_worker(_ready_settings(), only=only)


@click.command()
def relay() -> None:
    """Send jobs from the database to the broker. Several may run."""
    run_relay(_ready_settings())


@click.command()
def beat() -> None:
    """Start the periodic tasks. One is enough."""
    run_beat(_ready_settings())


def _ready_settings() -> Settings:
    settings = settings_with_database()
    if not settings.redis_url:
        raise Failure("REDIS_URL isn't set: give it the address of a Redis-compatible server.")
    log.configure(settings.log_level)
    if settings.metrics_dir:
        metrics.share(settings.metrics_dir)
    prepare(settings)
    return settings

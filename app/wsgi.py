"""The web's composition root."""

from __future__ import annotations

import os

from flask import Flask

from app import log, metrics
from app.api import (
    claims,
    corrections,
    docs,
    endpoints,
    erasures,
    exports,
    groups,
    health,
    notifications,
    otlp,
    otlp_wire,
    participants,
    projects,
    running,
    runs,
    stats,
    subjects,
    test_runs,
    test_sets,
    tokens,
    widget,
    work,
)
from app.api.cursors import Sealer
from app.api.edge import Application, Edge
from app.api.limits import Limiter
from app.api.routes import Route, Service
from app.config import Settings, read_settings
from app.store import secrets
from app.store.engine import create_engine
from app.transaction import transaction


def routes() -> list[Route]:
    """Every operation of the service."""
    declared = [
        *corrections.routes.routes,
        *tokens.routes.routes,
        *participants.routes.routes,
        *widget.routes.routes,
        *groups.routes.routes,
        *projects.routes.routes,
        *runs.routes.routes,
        *otlp.routes.routes,
        *subjects.agents.routes,
        *subjects.flows.routes,
        *running.routes.routes,
        *exports.routes.routes,
        *stats.routes.routes,
        *test_runs.routes.routes,
        *test_sets.routes.routes,
        *work.routes.routes,
        *claims.routes.routes,
        *notifications.routes.routes,
        *endpoints.routes.routes,
        *erasures.routes.routes,
        *health.routes.routes,
    ]
    return [*declared, *docs.documentation(declared)]


def create_app(settings: Settings) -> Flask:
    """The WSGI application. It starts without a database, and says so at ``/readyz``."""
    engine = create_engine(
        settings.database_url,
        pool_size=settings.api_threads + 1,  # One a request; one more for a stream that is read slowly.
        pool_timeout_ms=settings.pool_timeout_ms,
        statement_timeout_ms=settings.statement_timeout_ms,
        lock_timeout_ms=settings.lock_timeout_ms,
        application_name="corrigenda-api",
    )
    service = Service(engine, settings, Sealer(lambda: settings.secret_key or _kept_secret(settings)))
    flask = Application("corrigenda", static_folder=None)
    envelopes = {otlp.BASE: otlp_wire.refusal}
    Edge(service, Limiter(settings.rate_limit, settings.redis_url), envelopes).install(flask, routes())
    return flask


def _kept_secret(settings: Settings) -> str:
    """Read on a connection of its own: those who ask hold one of the pool's, and there may be no second for each."""
    engine = create_engine(settings.database_url, pool_size=1)
    try:
        with transaction(engine) as tx:
            return secrets.ensure(tx, "cursors")
    finally:
        engine.dispose()


def from_environment() -> Flask:
    """``create_app`` for a server that starts it in a process of its own."""
    settings = read_settings(os.environ)
    log.configure(settings.log_level)
    if settings.metrics_dir:
        metrics.share(settings.metrics_dir)
    return create_app(settings)

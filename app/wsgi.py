"""The web's composition root."""

from __future__ import annotations

import os

from flask import Flask

from app import log
from app.api import corrections, groups, projects, runs, test_sets, tokens
from app.api.cursors import Sealer
from app.api.edge import Edge
from app.api.limits import Limiter
from app.api.routes import Route, Service
from app.config import Settings, read_settings
from app.store import secrets
from app.store.engine import create_engine
from app.transaction import transaction


def routes() -> list[Route]:
    """Every operation of the service."""
    return [
        *corrections.routes.routes,
        *tokens.routes.routes,
        *groups.routes.routes,
        *projects.routes.routes,
        *runs.routes.routes,
        *test_sets.routes.routes,
    ]


def create_app(settings: Settings) -> Flask:
    """The WSGI application. The database must be migrated: the secret that seals cursors is read from it."""
    engine = create_engine(
        settings.database_url,
        pool_size=settings.api_threads,
        pool_timeout_ms=settings.pool_timeout_ms,
        statement_timeout_ms=settings.statement_timeout_ms,
        lock_timeout_ms=settings.lock_timeout_ms,
        application_name="corrigenda-api",
    )
    secret = settings.secret_key
    if not secret:
        with transaction(engine) as tx:
            secret = secrets.ensure(tx, "cursors")
    service = Service(engine, settings, Sealer(secret))
    flask = Flask("corrigenda", static_folder=None)
    Edge(service, Limiter(settings.rate_limit, settings.redis_url)).install(flask, routes())
    return flask


def from_environment() -> Flask:
    """``create_app`` for a server that starts it in a process of its own."""
    settings = read_settings(os.environ)
    log.configure(settings.log_level)
    return create_app(settings)

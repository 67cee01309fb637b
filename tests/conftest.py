"""A real PostgreSQL, built by the real migrations; each test in a tenant of its own."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg2
import pytest
from flask import Flask
from sqlalchemy import Engine

from app.config import Settings
from app.domain.model import Grant
from app.services.issue_tokens import Wanted, issue_token
from app.store import tokens
from app.store.engine import create_engine
from app.store.migrate import migrate
from app.transaction import transaction
from app.wsgi import create_app
from tests.client import Client
from tests.outbound import Outbound
from tests.server import Server

SHARED = "CORRIGENDA_TESTS_SERVER"
SERVER = pytest.StashKey[Server]()


def pytest_configure(config: pytest.Config) -> None:
    """Before parallel workers start, start the server that they share."""
    if config.getoption("numprocesses", None) and not hasattr(config, "workerinput"):
        config.stash[SERVER] = server = Server()
        os.environ[SHARED] = server.url


def pytest_unconfigure(config: pytest.Config) -> None:
    if SERVER in config.stash:
        config.stash[SERVER].stop()


@pytest.fixture(scope="session")
def server_url() -> Iterator[str]:
    """A PostgreSQL server of this test run."""
    if SHARED in os.environ:
        yield os.environ[SHARED]
        return
    server = Server()
    yield server.url
    server.stop()


def new_database(server_url: str) -> str:
    """The URL of a new, empty database on the server."""
    name = f"t_{uuid.uuid4().hex}"
    connection = psycopg2.connect(server_url)
    connection.autocommit = True
    connection.cursor().execute(f"CREATE DATABASE {name}")
    connection.close()
    return server_url.replace("/postgres?", f"/{name}?")


@pytest.fixture(scope="session")
def database_url(server_url: str) -> str:
    """A migrated database, shared by the tests of one process: each works in a tenant of its own."""
    url = new_database(server_url)
    migrate(url)
    return url


@pytest.fixture(scope="session")
def settings(database_url: str) -> Settings:
    return Settings(database_url=database_url, api_threads=8)


@pytest.fixture(scope="session")
def engine(database_url: str) -> Iterator[Engine]:
    engine = create_engine(database_url, pool_size=20)
    yield engine
    engine.dispose()


@pytest.fixture(scope="session")
def flask_app(settings: Settings) -> Flask:
    return create_app(settings)


@pytest.fixture
def tenant(engine: Engine) -> str:
    """A new tenant's id."""
    tenant_id = f"t-{uuid.uuid4().hex[:12]}"
    with transaction(engine) as tx:
        tokens.ensure_tenant(tx, tenant_id)
    return tenant_id


ClientOf = Callable[..., Client]


@pytest.fixture
def client_of(flask_app: Flask, engine: Engine, tenant: str) -> ClientOf:
    """Makes clients: ``client_of(role="member", grants=[Grant(...)], user="ann", tenant=other)``."""

    def make(
        role: str = "member",
        grants: list[Grant] | None = None,
        user: str | None = None,
        tenant_id: str = tenant,
        reviewer_role: str | None = None,
    ) -> Client:
        wanted = Wanted(
            "test",
            role,
            "user" if user else "service",
            user,
            tuple(grants or ()),
            reviewer_role,  # type: ignore[arg-type]
        )
        with transaction(engine) as tx:
            tokens.ensure_tenant(tx, tenant_id)
            caller, secret = issue_token(tx, tenant_id, wanted)
        return Client(flask_app, secret, caller)

    return make


@pytest.fixture
def admin(client_of: ClientOf) -> Client:
    """An admin of the test's tenant, user ``admin``."""
    return client_of(role="admin", user="admin")


@pytest.fixture
def anonymous(flask_app: Flask) -> Client:
    return Client(flask_app, None, None)


@pytest.fixture
def here() -> Path:
    return Path(__file__).parent


@pytest.fixture
def outbound(engine: Engine, settings: Settings, admin: Client) -> Outbound:
    """The test's tenant with what it takes to send messages. Nothing of other tests is due."""
    with transaction(engine) as tx:
        tx.run("UPDATE deliveries SET status = 'failed', collecting = false WHERE status = 'pending'")
    return Outbound(engine, settings, admin)

"""Connections: what is retried on another one, what isn't, and what is put back."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg2
import pytest
from sqlalchemy import Engine

from app.domain.errors import CorrectorGroupNameTaken, DatabaseBusy
from app.store.engine import CursorDb, Db, create_engine, reading, streaming
from app.transaction import transaction
from tests.server import Server

NAME = "corrigenda-test-engine"


@pytest.fixture
def small(database_url: str) -> Iterator[Engine]:
    engine = create_engine(database_url, pool_size=2, pool_timeout_ms=100, application_name=NAME)
    yield engine
    engine.dispose()


def fill(engine: Engine) -> None:
    """Have both connections in the pool."""
    with reading(engine) as one, reading(engine) as other:
        assert (one.value("SELECT 1"), other.value("SELECT 1")) == (1, 1)


def kill(database_url: str) -> None:
    connection = psycopg2.connect(database_url)
    connection.autocommit = True
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = %s", (NAME,))
        assert cursor.rowcount >= 1
    connection.close()


def test_connections_that_died_in_the_pool_are_exchanged(small: Engine, database_url: str) -> None:
    fill(small)
    kill(database_url)
    with reading(small) as one, reading(small) as other:
        assert (one.value("SELECT 1"), other.value("SELECT 2")) == (1, 2)
    fill(small)
    kill(database_url)
    with transaction(small) as tx:
        assert tx.value("SELECT 3") == 3
        assert tx.value("SELECT 4") == 4
    kill(database_url)
    with streaming(small, "SELECT generate_series(1, 3)") as rows:
        assert list(rows) == [(1,), (2,), (3,)]


def test_one_that_dies_amid_is_not(small: Engine, database_url: str) -> None:
    def used(db: Db) -> None:
        assert db.value("SELECT 1") == 1
        kill(database_url)
        db.value("SELECT 2")

    with pytest.raises(DatabaseBusy), reading(small) as db:
        used(db)
    with pytest.raises(DatabaseBusy), transaction(small) as tx:
        used(tx)
    with reading(small) as db:
        assert db.value("SELECT 3") == 3


def test_a_commit_that_cannot_be_made_is_not_taken_for_one(small: Engine, database_url: str) -> None:
    def lose_the_connection() -> None:
        with transaction(small) as tx:
            tx.run("CREATE TABLE never (id integer)")
            kill(database_url)

    with pytest.raises(DatabaseBusy):
        lose_the_connection()
    with reading(small) as db:
        assert db.value("SELECT to_regclass('never')") is None


def test_an_error_that_is_swallowed_commits_nothing(small: Engine) -> None:
    def swallow() -> None:
        with transaction(small) as tx:
            tx.run("CREATE TABLE never (id integer)")
            with pytest.raises(psycopg2.ProgrammingError):
                tx.run("SELECT nothing")

    with pytest.raises(RuntimeError):
        swallow()
    with reading(small) as db:
        assert db.value("SELECT to_regclass('never')") is None


def test_who_reads_nothing_holds_no_connection(small: Engine) -> None:
    with reading(small), reading(small), reading(small) as third:
        assert third.value("SELECT 1") == 1


def test_without_a_free_connection_it_is_busy(small: Engine) -> None:
    with reading(small) as one, reading(small) as other, reading(small) as third:
        assert (one.value("SELECT 1"), other.value("SELECT 1")) == (1, 1)
        with pytest.raises(DatabaseBusy):
            third.value("SELECT 1")


def test_a_violated_constraint_is_a_named_error(small: Engine, tenant: str) -> None:
    def add(name: str, weight: int = 1) -> None:
        with transaction(small) as tx:
            tx.run(
                "INSERT INTO corrector_groups (tenant_id, id, name, weight, scope_kind, created_at, updated_at)"
                " VALUES (%s, gen_random_uuid(), %s, %s, 'tenant', clock_timestamp(), clock_timestamp())",
                (tenant, name, weight),
            )

    add("experts")
    with pytest.raises(CorrectorGroupNameTaken):
        add("experts")
    with pytest.raises(psycopg2.errors.CheckViolation):
        add("others", -1)


def test_a_server_that_was_away_is_found_again() -> None:
    server = Server()
    engine = create_engine(server.url, pool_size=2)
    try:
        fill(engine)
        with reading(engine) as db:
            assert db.value("SELECT 1") == 1
            server.stop()
            with pytest.raises(DatabaseBusy):
                db.value("SELECT 1")
        with pytest.raises(DatabaseBusy), reading(engine) as db:
            db.value("SELECT 1")
    finally:
        engine.dispose()


class Crashing:
    """A lease of a connection whose server crashes in the middle of a statement, or finds fault with it."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def connection(self) -> Crashing:
        return self

    def cursor(self) -> Crashing:
        return self

    def execute(self, sql: str, params: object) -> None:
        raise self.error


def test_a_server_that_crashes_amid_is_busy_and_a_faulty_statement_isnt() -> None:
    lost = psycopg2.DatabaseError("server closed the connection unexpectedly")
    with pytest.raises(DatabaseBusy):
        CursorDb(Crashing(lost)).run("SELECT 1")  # type: ignore[arg-type]
    with pytest.raises(psycopg2.ProgrammingError):
        CursorDb(Crashing(psycopg2.ProgrammingError("can't execute an empty query"))).run("")  # type: ignore[arg-type]

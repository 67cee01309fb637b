"""Connections to PostgreSQL: SQLAlchemy's pool, psycopg2's cursors, no statement of its own.

Connections stay in autocommit, so that a read needs no BEGIN and no ROLLBACK; ``app/transaction.py`` is the one
place that opens and ends transactions. JSON columns come as the text that they hold: what was stored is what is shown.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, Protocol
from urllib.parse import urlsplit

import psycopg2
import psycopg2.errors
import psycopg2.extensions
import psycopg2.extras
import sqlalchemy
import sqlalchemy.exc
import sqlalchemy.pool
from sqlalchemy import Engine

from app.domain.errors import CorrectorGroupNameTaken, DatabaseBusy, ProjectNotFound, Refused

Params = Mapping[str, Any] | Sequence[Any] | None
Row = tuple[Any, ...]

RETRY_SECONDS = 2
"""What ``Retry-After`` says when the database was too busy."""

_BUSY = (
    psycopg2.OperationalError,
    psycopg2.InterfaceError,
    psycopg2.errors.QueryCanceled,
    psycopg2.errors.LockNotAvailable,
    psycopg2.errors.DeadlockDetected,
)


REFUSALS: dict[str, tuple[type[Refused], str]] = {
    "corrector_groups_name_uq": (CorrectorGroupNameTaken, "A corrector group of this scope has that name already."),
    "corrector_groups_project_fk": (ProjectNotFound, "There is no such project."),
}
"""What each constraint that callers can run into means to them, by its name."""


class Db(Protocol):
    """What store functions need: run one statement, get its rows. Both a read and a transaction are one."""

    def rows(self, sql: str, params: Params = None) -> list[Row]: ...

    def row(self, sql: str, params: Params = None) -> Row | None: ...

    def value(self, sql: str, params: Params = None) -> Any: ...

    def dicts(self, sql: str, params: Params = None) -> list[dict[str, Any]]: ...

    def run(self, sql: str, params: Params = None) -> int: ...


class CursorDb:
    """``Db`` over one psycopg2 connection, which stays the caller's."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def _cursor(self) -> Any:
        return self._connection.cursor()

    def _execute(self, sql: str, params: Params) -> Any:
        cursor = self._cursor()
        try:
            cursor.execute(sql, params)
        except _BUSY as error:
            raise busy() from error
        except psycopg2.IntegrityError as error:
            raise refused(error) from error
        return cursor

    def rows(self, sql: str, params: Params = None) -> list[Row]:
        rows: list[Row] = self._execute(sql, params).fetchall()
        return rows

    def row(self, sql: str, params: Params = None) -> Row | None:
        row: Row | None = self._execute(sql, params).fetchone()
        return row

    def value(self, sql: str, params: Params = None) -> Any:
        row = self.row(sql, params)
        return None if row is None else row[0]

    def dicts(self, sql: str, params: Params = None) -> list[dict[str, Any]]:
        cursor = self._execute(sql, params)
        names = [column.name for column in cursor.description]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]

    def run(self, sql: str, params: Params = None) -> int:
        count: int = self._execute(sql, params).rowcount
        return count


def refused(error: psycopg2.IntegrityError) -> Exception:
    """What a violated constraint means to the caller; ``error`` itself when that would be a fault of ours."""
    meaning = REFUSALS.get(error.diag.constraint_name or "")
    return meaning[0](meaning[1]) if meaning else error


def busy() -> DatabaseBusy:
    """The one answer to a database that can't answer in time."""
    return DatabaseBusy("The database is too busy to answer in time. Try again.", retryAfter=RETRY_SECONDS)


def create_engine(
    url: str,
    *,
    pool_size: int = 5,
    pool_timeout_ms: int = 5_000,
    statement_timeout_ms: int = 0,
    lock_timeout_ms: int = 0,
    application_name: str = "corrigenda",
) -> Engine:
    """A pool of connections to ``url`` (``postgresql://…``). Opens none yet. Time-outs in milliseconds, 0 for none."""
    options = f"-c statement_timeout={statement_timeout_ms} -c lock_timeout={lock_timeout_ms} -c timezone=UTC"

    def connect() -> Any:
        connection = psycopg2.connect(
            plain_url(url), options=options, application_name=application_name, connect_timeout=5
        )
        connection.autocommit = True
        psycopg2.extras.register_default_json(connection, loads=_as_is)
        psycopg2.extras.register_default_jsonb(connection, loads=_as_is)
        return connection

    return sqlalchemy.create_engine(
        "postgresql+psycopg2://",
        creator=connect,
        poolclass=sqlalchemy.pool.QueuePool,
        pool_size=pool_size,
        max_overflow=0,
        pool_timeout=pool_timeout_ms / 1000,
        pool_reset_on_return=None,
    )


def _as_is(text: str) -> str:
    return text


def plain_url(url: str) -> str:
    """``url`` as libpq takes it: SQLAlchemy's driver name after the ``+`` left out."""
    scheme = urlsplit(url).scheme
    return "postgresql" + url[len(scheme) :]


@contextmanager
def checked_out(engine: Engine) -> Iterator[Any]:
    """A psycopg2 connection from the pool. One that broke is thrown away, not put back."""
    try:
        fairy = engine.raw_connection()
    except (sqlalchemy.exc.TimeoutError, sqlalchemy.exc.OperationalError, psycopg2.OperationalError) as error:
        raise busy() from error
    try:
        yield fairy.driver_connection
    finally:
        connection = fairy.driver_connection
        status = connection.info.transaction_status if connection is not None else None
        if connection is None or connection.closed or status != psycopg2.extensions.TRANSACTION_STATUS_IDLE:
            fairy.invalidate()
        fairy.close()


class _LateDb(CursorDb):
    """Takes its connection from the pool with its first statement: who reads nothing, or streams, holds none."""

    def __init__(self, engine: Engine, held: ExitStack) -> None:
        super().__init__(None)
        self._engine, self._held = engine, held

    def _cursor(self) -> Any:
        if self._connection is None:
            self._connection = self._held.enter_context(checked_out(self._engine))
        return super()._cursor()


@contextmanager
def reading(engine: Engine) -> Iterator[Db]:
    """Statements of their own, each seeing what is committed when it starts."""
    with ExitStack() as held:
        yield _LateDb(engine, held)


@contextmanager
def streaming(engine: Engine, sql: str, params: Params = None, batch: int = 500) -> Iterator[Iterator[Row]]:
    """The rows of one large read, in constant memory, all of one snapshot."""
    with checked_out(engine) as connection:
        cursor = connection.cursor()
        try:
            cursor.execute("BEGIN READ ONLY; DECLARE stream NO SCROLL CURSOR FOR " + sql, params)
            yield _fetched(cursor, batch)
        except _BUSY as error:
            raise busy() from error
        finally:
            if not connection.closed:
                cursor.execute("ROLLBACK")


def _fetched(cursor: Any, batch: int) -> Iterator[Row]:
    while True:
        cursor.execute(f"FETCH FORWARD {batch:d} FROM stream")
        rows = cursor.fetchall()
        if not rows:
            return
        yield from rows

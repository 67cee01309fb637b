"""Connections to PostgreSQL: SQLAlchemy's pool, psycopg2's cursors, no statement of its own.

Connections stay in autocommit, so that a read needs no BEGIN and no ROLLBACK; ``app/transaction.py`` is the one
place that opens and ends transactions. JSON columns come as the text that they hold: what was stored is what is shown.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
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

from app.domain.errors import DatabaseBusy
from app.store.constraints import refused

Params = Mapping[str, Any] | Sequence[Any] | None
Row = tuple[Any, ...]

RETRY_SECONDS = 2
"""What ``Retry-After`` says when the database was too busy."""

ABANDONED_MS = 2_000
"""A statement that still runs, or waits for a lock, so long after its process was killed ends and undoes its work."""

_LIVENESS: dict[str, Any] = {
    "connect_timeout": 5,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}
"""How soon a server that is gone without a word is noticed, as libpq has it: seconds, but milliseconds in the last."""

_BUSY = (
    psycopg2.OperationalError,
    psycopg2.InterfaceError,
    psycopg2.errors.QueryCanceled,
    psycopg2.errors.LockNotAvailable,
    psycopg2.errors.DeadlockDetected,
)


class Db(Protocol):
    """What store functions need: run one statement, get its rows. Both a read and a transaction are one."""

    def rows(self, sql: str, params: Params = None) -> list[Row]: ...

    def row(self, sql: str, params: Params = None) -> Row | None: ...

    def value(self, sql: str, params: Params = None) -> Any: ...

    def dicts(self, sql: str, params: Params = None) -> list[dict[str, Any]]: ...

    def run(self, sql: str, params: Params = None) -> int: ...


class Lease:
    """A connection of the pool, taken when it is first asked for."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._fairy: Any = None
        self._was_used = False

    def connection(self) -> Any:
        """The psycopg2 connection.

        :raises DatabaseBusy: if there is none to be had in time.
        """
        if self._fairy is None:
            try:
                self._fairy = self._engine.raw_connection()
            except (sqlalchemy.exc.TimeoutError, sqlalchemy.exc.OperationalError, psycopg2.OperationalError) as error:
                raise busy() from error
            self._was_used = "used" in self._fairy.info
            self._fairy.info["used"] = True
        return self._fairy.driver_connection

    def status(self) -> int:
        """psycopg2's transaction status: idle without a connection, unknown on a dead one."""
        if self._fairy is None:
            return psycopg2.extensions.TRANSACTION_STATUS_IDLE
        status: int = self._fairy.driver_connection.info.transaction_status
        return status

    def exchange(self) -> bool:
        """Throw the connection away if it died in the pool (the server restarted); the next is another one."""
        if not self._was_used or not self._fairy.driver_connection.closed:
            return False
        self.release()
        return True

    def release(self) -> None:
        """Put the connection back; one that broke, or is in the middle of something, is thrown away."""
        if self._fairy is None:
            return
        if self.status() != psycopg2.extensions.TRANSACTION_STATUS_IDLE:
            self._fairy.invalidate()
        self._fairy.close()
        self._fairy = None


class CursorDb:
    """``Db`` over one leased connection.

    While nothing ran on it yet, a connection that proves dead is exchanged and the statement run again: a read changes
    nothing, and of a transaction nothing is kept before its end.
    """

    def __init__(self, lease: Lease) -> None:
        self._lease = lease
        self._ran = False

    def _execute(self, sql: str, params: Params) -> Any:
        while True:
            cursor = self._lease.connection().cursor()
            try:
                cursor.execute(sql, params)
            except _BUSY as error:
                if self._ran or not self._lease.exchange():
                    raise busy() from error
            except psycopg2.IntegrityError as error:
                raise refused(error) from error
            except psycopg2.DatabaseError as error:
                if type(error) is psycopg2.DatabaseError and error.pgcode is None:
                    raise busy() from error  # the server crashed in the middle: an error without a code of its own
                raise
            else:
                self._ran = True
                return cursor

    def let_go(self) -> None:
        """Put the connection back; the next statement takes one anew."""
        self._lease.release()
        self._ran = False

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
    durable: bool = True,
) -> Engine:
    """A pool of connections to ``url`` (``postgresql://…``). Opens none yet. Time-outs in milliseconds, 0 for none.

    Not ``durable``: a commit doesn't wait for the disk, and the last ones may be undone by a crash of the server.
    """
    options = (
        f"-c statement_timeout={statement_timeout_ms} -c lock_timeout={lock_timeout_ms} -c timezone=UTC"
        f" -c client_connection_check_interval={ABANDONED_MS}"
        f"{'' if durable else ' -c synchronous_commit=off'}"
    )

    def connect() -> Any:
        connection = psycopg2.connect(plain_url(url), options=options, application_name=application_name, **_LIVENESS)
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
def leasing(engine: Engine) -> Iterator[Lease]:
    """A connection for the block, taken when it is needed and put back in the end."""
    lease = Lease(engine)
    try:
        yield lease
    finally:
        lease.release()


@contextmanager
def reading(engine: Engine) -> Iterator[Db]:
    """Statements of their own, each seeing what is committed when it starts."""
    with leasing(engine) as lease:
        yield CursorDb(lease)


@contextmanager
def streaming(engine: Engine, sql: str, params: Params = None, batch: int = 500) -> Iterator[Iterator[Row]]:
    """The rows of one large read, in constant memory, all of one snapshot."""
    with leasing(engine) as lease:
        db = CursorDb(lease)
        try:
            db.run("BEGIN READ ONLY; DECLARE stream NO SCROLL CURSOR FOR " + sql, params)
            yield _fetched(db, batch)
        finally:
            if lease.status() == psycopg2.extensions.TRANSACTION_STATUS_INTRANS:
                db.run("ROLLBACK")


def _fetched(db: Db, batch: int) -> Iterator[Row]:
    while rows := db.rows(f"FETCH FORWARD {batch:d} FROM stream"):
        yield from rows

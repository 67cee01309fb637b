"""The one place that commits.

``BEGIN`` travels with the first statement, so that a transaction costs one round trip more than its statements.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg2
from psycopg2 import extensions
from sqlalchemy import Engine

from app.store.engine import CursorDb, Lease, Params, busy, leasing


class Transaction(CursorDb):
    """One database transaction. All or nothing of what ran through it is kept."""

    def __init__(self, lease: Lease) -> None:
        super().__init__(lease)
        self._begun = False

    def _execute(self, sql: str, params: Params) -> Any:
        if not self._begun:
            self._begun = True
            sql = "BEGIN; " + sql
        return super()._execute(sql, params)

    @contextmanager
    def attempt(self) -> Iterator[None]:
        """A part that may fail alone: a failure inside undoes the part and is raised again."""
        self.run("SAVEPOINT attempt")
        try:
            yield
        except BaseException:
            self.run("ROLLBACK TO SAVEPOINT attempt")
            raise
        self.run("RELEASE SAVEPOINT attempt")

    def _end(self, word: str) -> None:
        status = self._lease.status()
        if status == extensions.TRANSACTION_STATUS_IDLE:
            return
        broken = word == "COMMIT" and status != extensions.TRANSACTION_STATUS_INTRANS
        if status == extensions.TRANSACTION_STATUS_UNKNOWN and not broken:
            return
        try:
            self._lease.connection().cursor().execute("ROLLBACK" if broken else word)
        except (psycopg2.OperationalError, psycopg2.InterfaceError) as error:
            raise busy() from error
        if broken:
            raise RuntimeError("a statement failed and its error was swallowed: nothing was committed")


@contextmanager
def transaction(engine: Engine) -> Iterator[Transaction]:
    """Open a transaction; commit when the block ends, undo everything when it raises."""
    with leasing(engine) as lease, transaction_on(lease) as tx:
        yield tx


@contextmanager
def transaction_on(lease: Lease) -> Iterator[Transaction]:
    """``transaction`` on a connection that was leased already."""
    work = Transaction(lease)
    try:
        yield work
    except BaseException:
        work._end("ROLLBACK")
        raise
    work._end("COMMIT")

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

from app.store.engine import CursorDb, Params, busy, checked_out


class Transaction(CursorDb):
    """One database transaction. All or nothing of what ran through it is kept."""

    def __init__(self, connection: Any) -> None:
        super().__init__(connection)
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
        if not self._begun or self._connection.closed:
            return
        status = self._connection.info.transaction_status
        if status == extensions.TRANSACTION_STATUS_IDLE:
            return
        if word == "COMMIT" and status != extensions.TRANSACTION_STATUS_INTRANS:
            word, broken = "ROLLBACK", True
        else:
            broken = False
        cursor = self._connection.cursor()
        try:
            cursor.execute(word)
        except (psycopg2.OperationalError, psycopg2.InterfaceError) as error:
            raise busy() from error
        if broken:
            raise RuntimeError("a statement failed and its error was swallowed: nothing was committed")


@contextmanager
def transaction(engine: Engine) -> Iterator[Transaction]:
    """Open a transaction; commit when the block ends, undo everything when it raises."""
    with checked_out(engine) as connection:
        work = Transaction(connection)
        try:
            yield work
        except BaseException:
            work._end("ROLLBACK")
            raise
        work._end("COMMIT")

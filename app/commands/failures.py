"""Errors as an operator sees them."""

from __future__ import annotations

import psycopg2
import psycopg2.errors
import sqlalchemy.exc

from app.config import SettingError
from app.domain.errors import DatabaseBusy
from app.failure import Failure
from app.store.migrate import NewerDatabase

_OURS = (Failure, SettingError, NewerDatabase)


def explained(error: BaseException | None) -> str | None:
    """``error`` as one line for an operator, or ``None`` if it is a fault of ours."""
    if isinstance(error, _OURS):
        return str(error)
    if isinstance(error, DatabaseBusy):
        return explained(error.__cause__)
    if isinstance(error, sqlalchemy.exc.DBAPIError):
        return explained(error.orig)
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename} can't be used: {error.strerror}."
    if isinstance(error, psycopg2.OperationalError):
        return f"The database can't be reached: {_first_line(error)}{_advice(error)}"
    if isinstance(error, psycopg2.errors.InsufficientPrivilege):
        return f"The database's user may not do this: {_first_line(error)}"
    if isinstance(error, psycopg2.ProgrammingError) and error.pgcode is None:
        return "DATABASE_URL isn't a PostgreSQL address such as postgresql://user:password@host:5432/name."
    return None


def _advice(error: Exception) -> str:
    """A socket that isn't there is that of a server which somebody starts by hand: most likely ours."""
    gone = "on socket" in str(error) and "No such file or directory" in str(error)
    return ": is `corrigenda up` running?" if gone else ""


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]

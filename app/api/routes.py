"""How a resource declares its operations, and what a view is given.

A view takes a ``Call`` and gives an ``Answer``; all that every operation shares (authentication, limits, checking the
body, idempotency, the transaction, errors) is in ``app/api/edge.py``. OpenAPI is made from the same declarations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final, Literal, cast

import orjson
from sqlalchemy import Engine

from app.api.cursors import Sealer, binding_of
from app.api.schemas.base import Query, Shape
from app.config import Settings
from app.domain.errors import NotFound, Refused, RouteNotFound
from app.domain.model import Caller
from app.store.engine import CursorDb, Db
from app.transaction import Transaction

JSON: Final = "application/json"
NDJSON = "application/x-ndjson"

Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]


@dataclass(frozen=True, slots=True)
class Answer:
    """What goes back. ``body`` may be streamed. ``secret``: it is never kept under an idempotency key."""

    status: int
    body: bytes | str | Iterable[bytes | str] = b""
    content_type: str = JSON
    headers: dict[str, str] = field(default_factory=dict)
    secret: bool = False


def answer(value: Any, status: int = 200, *, secret: bool = False, headers: dict[str, str] | None = None) -> Answer:
    """``value`` as a JSON answer."""
    return Answer(status, orjson.dumps(value), secret=secret, headers=headers or {})


@dataclass(frozen=True, slots=True)
class Service:
    """What the composition root hands to every view."""

    engine: Engine
    settings: Settings
    sealer: Sealer


@dataclass(slots=True)
class Call:
    """One checked request. ``body`` and ``query`` are what their shapes loaded, by attribute name.

    ``db`` is the open transaction of a write, and single statements of a read.
    """

    service: Service
    route: Route
    caller_or_none: Caller | None
    path: dict[str, str]
    query: dict[str, Any]
    body: dict[str, Any]
    raw: Any
    db: Db
    headers: Any

    @property
    def caller(self) -> Caller:
        """Who calls; only of routes that need a token."""
        assert self.caller_or_none is not None
        return self.caller_or_none

    @property
    def tx(self) -> Transaction:
        """The transaction of a write: committed when the view returns, undone when it raises."""
        return cast(Transaction, self.db)

    def let_go(self) -> None:
        """Put the connection of a read back, before something else takes one: who holds one and waits for another may
        wait for others that do the same."""
        cast(CursorDb, self.db).let_go()

    def cursor_binding(self) -> str:
        """What a cursor of this list is bound to; of a list within a thing, to that thing too."""
        return binding_of(self.caller, f"{self.route.path} {sorted(self.path.items())}", self.query)


View = Callable[[Call], Answer]


@dataclass(frozen=True, slots=True)
class Route:
    """One operation. ``path`` is as in OpenAPI: ``/v1/runs/{runId}``.

    ``errors`` are those of its own, besides the ones that every operation shares.
    ``missing`` is what a malformed id in the path answers.
    ``streams``: the view reads the request itself, line by line, with no transaction open and no kept answer.
    ``undoes``: ``False`` for a view that takes the body as it came and opens transactions of its own, with no kept
    answer either.
    ``refusals``: the shape of its errors, where that isn't ours.
    ``participants``: the shape of what it answers to a participant's token, which it refuses without one.
    ``public``: needs no token. ``hidden``: not in the OpenAPI document.
    ``takes`` and ``media_types`` are what it reads and answers. ``headers`` are those that it looks at, with why.
    """

    method: Method
    path: str
    view: View
    summary: str
    description: str
    tag: str
    body: Shape | None = None
    body_required: bool = True
    query: Query | None = None
    answers: dict[int, type[Shape] | None] = field(default_factory=dict)
    errors: tuple[type[Refused], ...] = ()
    missing: type[NotFound] = RouteNotFound
    participants: type[Shape] | None = None
    streams: bool = False
    undoes: bool = True
    refusals: type[Shape] | None = None
    public: bool = False
    hidden: bool = False
    takes: tuple[str, ...] = (JSON,)
    media_types: tuple[str, ...] = (JSON,)
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def writes(self) -> bool:
        return self.method != "GET"

    @property
    def keyed(self) -> bool:
        """Whether it is a write of which the edge checks the body, opens the transaction and keeps the answer."""
        return self.writes and self.undoes and not self.streams


class Routes:
    """The operations of one resource, in the order in which they were declared."""

    def __init__(self, tag: str) -> None:
        self.tag = tag
        self.routes: list[Route] = []

    def add(
        self,
        method: Method,
        path: str,
        *,
        body: type[Shape] | None = None,
        query: type[Query] | None = None,
        answers: dict[int, type[Shape] | None],
        errors: tuple[type[Refused], ...] = (),
        **more: Any,
    ) -> Callable[[View], View]:
        """Declare the decorated view. Its docstring is the operation's summary (first line) and description."""

        def declare(view: View) -> View:
            summary, _, description = (view.__doc__ or path).strip().partition("\n")
            self.routes.append(
                Route(
                    method,
                    path,
                    view,
                    summary.rstrip("."),
                    " ".join(description.split()),
                    self.tag,
                    body=body() if body else None,
                    query=query() if query else None,
                    answers=answers,
                    errors=errors,
                    **more,
                )
            )
            return view

        return declare


def page(call: Call, rows: list[Any], limit: int, position: Callable[[Any], Any], show: Callable[[Any], str]) -> Answer:
    """A list's answer from up to ``limit + 1`` rows: ``show`` gives a row's JSON text, ``position`` its (time, id)."""
    data = ",".join(show(row) for row in rows[:limit])
    more = len(rows) > limit
    cursor = ""
    if more:
        sealed = call.service.sealer.seal(position(rows[limit - 1]), call.cursor_binding())
        cursor = f',"nextCursor":"{sealed}"'
    return Answer(200, f'{{"data":[{data}],"hasMore":{"true" if more else "false"}{cursor}}}')


def after(call: Call) -> Any:
    """The position that the query's ``cursor`` names, or ``None`` for the first page."""
    cursor = call.query.get("cursor")
    return call.service.sealer.open(cursor, call.cursor_binding()) if cursor else None

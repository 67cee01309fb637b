"""What every operation shares, in the order of the contract: size, token, idempotency, shape, then the view.

A write runs in one transaction, which also keeps its answer under the idempotency key; it commits only below 400.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from flask import Flask, Request, Response, request
from werkzeug.exceptions import HTTPException
from werkzeug.exceptions import MethodNotAllowed as WerkzeugMethodNotAllowed
from werkzeug.exceptions import NotFound as WerkzeugNotFound

from app import log, metrics
from app.api import bodies, errors
from app.api.auth import authenticate
from app.api.errors import Envelope, envelope
from app.api.idempotency import Keyed, once
from app.api.limits import Drain, Limiter, cors_headers, read_body
from app.api.paths import AnyId, canonical, meant, rule_of, storable
from app.api.queries import load_query
from app.api.routes import Answer, Call, Route, Service
from app.api.schemas.base import Shape
from app.domain.errors import (
    BadInput,
    DatabaseBusy,
    IdempotencyStoreUnavailable,
    InternalError,
    MethodNotAllowed,
    Refused,
    RequestTooLarge,
    RouteNotFound,
)
from app.domain.model import Caller
from app.domain.participants import denied
from app.store.engine import RETRY_SECONDS, CursorDb, Lease, leasing
from app.store.ids import new_id
from app.transaction import Transaction, transaction_on

_SANE = re.compile(r"[\x21-\x7e]{1,128}")
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_NOTHING = Shape()
"""The body of a write that takes none: absent, or an empty object."""


class Sent(Request):
    """A request, and what becomes known of it on its way. ``started``: seconds of the metrics' clock."""

    id: str
    caller: Caller | None = None
    raw: bytes = b""
    ran: bool = False
    started: float


class Application(Flask):
    """Flask, with our request."""

    request_class = Sent

    def ensure_sync(self, func: Callable[..., Any]) -> Callable[..., Any]:
        """``func`` itself: no view of ours is a coroutine, and asking of each, on every request, has its price."""
        return func


class Edge:
    """Serves declared routes through Flask."""

    def __init__(self, service: Service, limiter: Limiter, envelopes: Mapping[str, Envelope] | None = None) -> None:
        """``envelopes``: how errors are told below a path, where that isn't our way."""
        self._service = service
        self._limiter = limiter
        self._envelopes = envelopes or {}
        self._drain = Drain(max(1, service.settings.api_threads - 1), 4 * service.settings.max_body_bytes)
        self._routes: dict[str, Route] = {}

    def install(self, flask: Flask, routes: list[Route]) -> None:
        """Register ``routes`` and all that surrounds them with ``flask``."""
        flask.url_map.strict_slashes = True
        flask.url_map.merge_slashes = False
        flask.url_map.converters["anyid"] = AnyId
        for route in routes:
            endpoint = f"{route.method} {route.path}"
            self._routes[endpoint] = route
            flask.add_url_rule(
                rule_of(route.path),
                endpoint,
                self._view(route),
                methods=[route.method],
                provide_automatic_options=False,
            )
        flask.before_request(self._admit)
        flask.after_request(self._finish)
        flask.register_error_handler(Exception, self._refuse)

    def _admit(self) -> Response | None:
        sent = _current()
        sent.id, sent.started = _request_id(sent.headers.get("X-Request-Id")), metrics.now()
        log.clear()
        log.bind(requestId=sent.id)
        settings, route = self._service.settings, self._route(sent)
        if sent.method == "OPTIONS" and cors_headers(sent.headers.get("Origin"), settings.cors_origins):
            return _bare(204)
        sent.raw = b"" if route is not None and route.streams else read_body(sent, settings.max_body_bytes)
        if sent.path.endswith("/") and (target := canonical(sent)) is not None:
            return _bare(308, Location=target)
        if route is None:
            with leasing(self._service.engine) as lease:
                self._authenticate(sent, lease, None)
        return None

    def _authenticate(self, sent: Sent, lease: Lease, route: Route | None) -> None:
        sent.caller = authenticate(CursorDb(lease), sent.headers.get("Authorization"))
        log.bind(tenantId=sent.caller.tenant_id)
        self._limiter.admit(sent.caller)
        if sent.caller.participant is not None and (route is None or route.participants is None):
            raise denied()

    def _route(self, sent: Sent) -> Route | None:
        return self._routes.get(sent.endpoint) if sent.endpoint else None

    def _view(self, route: Route) -> Any:
        def serve(**path: str) -> Response:
            sent = _current()
            with leasing(self._service.engine) as lease:
                if not route.public:
                    self._authenticate(sent, lease, route)
                if not all(map(storable, path.values())):
                    raise _no_such_id(route)
                if route.writes and not route.keyed:
                    lease.release()
                    return self._run(route, sent, path, None)
                if not route.writes:
                    return self._run(route, sent, path, CursorDb(lease))
                with transaction_on(lease) as tx:
                    return self._write(route, sent, path, tx)

        return serve

    def _write(self, route: Route, sent: Sent, path: dict[str, str], tx: Transaction) -> Response:
        key = sent.headers.get("Idempotency-Key")
        if key is None or sent.caller is None:
            return self._run(route, sent, path, tx)
        keyed = Keyed(sent.caller, sent.method, sent.path, key, sent.raw)
        return once(tx, keyed, lambda: self._run(route, sent, path, tx))

    def _run(self, route: Route, sent: Sent, path: dict[str, str], db: Any) -> Response:
        query = load_query(route.query, sent.query_string)
        body = {}
        if route.keyed:
            raw = sent.raw if route.body is not None and route.body_required else sent.raw or b"{}"
            body = bodies.load_body(route.body or _NOTHING, raw)
        sent.ran = True
        source = sent.stream if route.streams else sent.raw
        call = Call(self._service, route, sent.caller, path, query, body, source, db, sent.headers)
        return _response(route.view(call))

    def _finish(self, response: Response) -> Response:
        sent = _current()
        response.headers["X-Request-Id"] = sent.id
        if sent.path.startswith("/v1"):
            response.headers.setdefault("Cache-Control", "no-store")
        if origins := self._service.settings.cors_origins:
            response.headers.add("Vary", "Origin")  # A cache must not hand one origin's answer to another.
        origin = sent.headers.get("Origin")
        if origin is not None:
            response.headers.extend(cors_headers(origin, origins))
        route, seconds = self._route(sent), metrics.now() - sent.started
        name = route.path if route else "unknown"
        method = sent.method if sent.method in _METHODS else "other"
        metrics.request(method, name, response.status_code, seconds)
        tenant_id = sent.caller.tenant_id if sent.caller else None
        log.request(method, name, response.status_code, seconds, sent.id, tenant_id)
        return response

    def _refuse(self, error: Exception) -> Response:
        sent = _current()
        refused = self._named(error, sent)
        speak = next((speak for prefix, speak in self._envelopes.items() if sent.path.startswith(prefix)), envelope)
        body, content_type = speak(refused, sent.id, sent.headers)
        response = Response(body, errors.status_of(refused), content_type=content_type)
        if isinstance(refused, RequestTooLarge) and "Expect" not in sent.headers:
            response.response = self._drain.after(body, sent.content_length, sent.environ["wsgi.input"])
        for name, value in errors.headers_of(refused).items():
            response.headers[name] = value
        return response

    def _named(self, error: Exception, sent: Sent) -> Refused:
        if isinstance(error, DatabaseBusy):
            log.log.warning("database busy", error=str(error.__cause__))
            route = self._route(sent)
            if not sent.ran and route is not None and route.keyed and sent.headers.get("Idempotency-Key"):
                message = "The idempotency keys can't be read; nothing ran."
                return IdempotencyStoreUnavailable(message, retryAfter=RETRY_SECONDS)
            return error
        if isinstance(error, Refused):
            return error
        if isinstance(error, WerkzeugMethodNotAllowed):
            allowed = sorted(error.valid_methods or [])
            return MethodNotAllowed(f"{sent.method} is not allowed here.", allowed=allowed)
        if isinstance(error, WerkzeugNotFound):
            for route in self._routes.values():
                if meant(route, sent.method, sent.path):
                    return _no_such_id(route)
            return RouteNotFound("There is nothing at this path; GET /v1/openapi.json lists what there is.")
        if isinstance(error, HTTPException) and error.code is not None and error.code < 500:
            return BadInput(error.description or "The request can't be understood.")
        log.log.error("request failed", exc_info=error)
        return InternalError("Something went wrong on our side; the request id finds it in our log.")


def _current() -> Sent:
    """The request itself: Flask's ``request`` looks it up anew on every use."""
    current: Sent = request._get_current_object()  # type: ignore[attr-defined]
    return current


def _no_such_id(route: Route) -> Refused:
    if route.method == "PUT":
        return BadInput("The id in the path holds characters that no id has.")
    return route.missing("There is no such thing.")


def _bare(status: int, **headers: str) -> Response:
    response = Response(status=status, headers=headers)
    del response.headers["Content-Type"]
    return response


def _response(answer: Answer) -> Response:
    body: Any = answer.body
    if request.method == "HEAD" and hasattr(body, "close"):
        body.close()  # nobody reads it, so nothing may wait until somebody does
    response = Response(body, answer.status, headers=answer.headers, content_type=answer.content_type)
    if answer.secret:
        response.secret = True  # type: ignore[attr-defined]
    return response


def _request_id(sent: str | None) -> str:
    return sent if sent is not None and _SANE.fullmatch(sent) else new_id()

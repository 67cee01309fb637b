"""What every operation shares, in the order of the contract: size, token, idempotency, shape, then the view.

A write runs in one transaction, which also keeps its answer under the idempotency key; it commits only below 400.
"""

from __future__ import annotations

import hashlib
import re
from typing import Any
from urllib.parse import quote

from flask import Flask, Response, current_app, g, request
from werkzeug.exceptions import HTTPException
from werkzeug.exceptions import MethodNotAllowed as WerkzeugMethodNotAllowed
from werkzeug.exceptions import NotFound as WerkzeugNotFound

from app import log, metrics
from app.api import bodies, errors
from app.api.auth import authenticate
from app.api.limits import Limiter, cors_headers, read_body
from app.api.queries import load_query
from app.api.routes import JSON, Answer, Call, Route, Service
from app.domain import times
from app.domain.errors import (
    BadInput,
    DatabaseBusy,
    IdempotencyKeyBodyMismatch,
    IdempotencyKeyInFlight,
    IdempotencyKeyReplayWithheld,
    IdempotencyStoreUnavailable,
    InternalError,
    MethodNotAllowed,
    Refused,
    RouteNotFound,
)
from app.store import idempotency
from app.store.engine import reading
from app.store.ids import new_id
from app.transaction import Transaction, transaction

_SANE = re.compile(r"[\x21-\x7e]{1,128}")
_KEY = re.compile(r"[\x21-\x7e]{1,255}")


class Edge:
    """Serves declared routes through Flask."""

    def __init__(self, service: Service, limiter: Limiter) -> None:
        self._service = service
        self._limiter = limiter
        self._routes: dict[str, Route] = {}

    def install(self, flask: Flask, routes: list[Route]) -> None:
        """Register ``routes`` and all that surrounds them with ``flask``."""
        flask.url_map.strict_slashes = True
        flask.url_map.merge_slashes = False
        for route in routes:
            endpoint = f"{route.method} {route.path}"
            self._routes[endpoint] = route
            flask.add_url_rule(
                _rule(route.path),
                endpoint,
                self._view(route),
                methods=[route.method],
                provide_automatic_options=False,
            )
        flask.before_request(self._admit)
        flask.after_request(self._finish)
        flask.register_error_handler(Exception, self._refuse)

    def _admit(self) -> Response | None:
        g.request_id = _request_id(request.headers.get("X-Request-Id"))
        log.clear()
        log.bind(requestId=g.request_id)
        g.caller, g.ran, g.started = None, False, metrics.now()
        route = self._route()
        settings = self._service.settings
        if request.method == "OPTIONS" and cors_headers(request.headers.get("Origin"), settings.cors_origins):
            return Response(status=204)
        g.raw = None if route is not None and route.streams else read_body(request, settings.max_body_bytes)
        if route is None or not route.public:
            with reading(self._service.engine) as db:
                g.caller = authenticate(db, request.headers.get("Authorization"))
            log.bind(tenantId=g.caller.tenant_id)
            self._limiter.admit(g.caller)
        return self._canonical() if request.routing_exception is not None else None

    def _route(self) -> Route | None:
        return self._routes.get(request.endpoint) if request.endpoint else None

    def _canonical(self) -> Response | None:
        """308 from a path with trailing slashes to the one that there is."""
        path = request.path.rstrip("/")
        if path == request.path or not isinstance(request.routing_exception, WerkzeugNotFound):
            return None
        adapter = current_app.create_url_adapter(request)
        if adapter is None or not adapter.allowed_methods(path):
            return None
        query = request.query_string.decode("latin-1")
        response = Response(status=308)
        response.headers["Location"] = request.root_url.rstrip("/") + quote(path) + (f"?{query}" if query else "")
        return response

    def _view(self, route: Route) -> Any:
        def serve(**path: str) -> Response:
            if any("\x00" in value for value in path.values()) and route.method != "PUT":
                raise route.missing("There is no such thing.")
            if route.streams:
                return self._run(route, path, None)
            if not route.writes:
                with reading(self._service.engine) as db:
                    return self._run(route, path, db)
            with transaction(self._service.engine) as tx:
                return self._write(route, path, tx)

        return serve

    def _write(self, route: Route, path: dict[str, str], tx: Transaction) -> Response:
        key = request.headers.get("Idempotency-Key")
        if key is None:
            return self._run(route, path, tx)
        if not _KEY.fullmatch(key):
            raise BadInput("Idempotency-Key must have 1 to 255 visible ASCII characters.")
        if g.caller is None:
            return self._run(route, path, tx)
        principal = g.caller.principal
        digest = idempotency.key_digest(principal.kind, principal.id, request.method, request.path, key)
        body_sha256 = hashlib.sha256(g.raw).digest()
        replay = self._replay(tx, digest, body_sha256)
        if replay is not None:
            return replay
        response = self._run(route, path, tx)
        _keep(tx, digest, body_sha256, response)
        return response

    def _replay(self, tx: Transaction, digest: bytes, body_sha256: bytes) -> Response | None:
        locked, kept = idempotency.begin(tx, g.caller.tenant_id, digest)
        if not locked:
            raise IdempotencyKeyInFlight("The first request with this key still runs.", retryAfter=5)
        if kept is None:
            return None
        if kept.body_sha256 != body_sha256:
            raise IdempotencyKeyBodyMismatch("This key was used with another body.")
        if kept.body is None:
            raise IdempotencyKeyReplayWithheld(
                "The first request succeeded; its answer is not kept.",
                status=kept.status,
                at=times.wire(kept.at),
            )
        response = Response(kept.body, kept.status, headers=kept.headers, content_type=kept.content_type)
        response.headers["X-Idempotent-Replay"] = "true"
        return response

    def _run(self, route: Route, path: dict[str, str], db: Any) -> Response:
        query = load_query(route.query, request.args)
        body = {}
        if route.body is not None and not route.streams:
            raw = g.raw or (b"" if route.body_required else b"{}")
            body = bodies.load_body(route.body, raw)
        g.ran = True
        call = Call(
            self._service,
            route,
            g.caller,
            path,
            query,
            body,
            request.stream if route.streams else g.raw,
            db,
            request.headers,
        )
        return _response(route.view(call))

    def _finish(self, response: Response) -> Response:
        response.headers["X-Request-Id"] = g.request_id
        if request.path.startswith("/v1"):
            response.headers.setdefault("Cache-Control", "no-store")
        origin = request.headers.get("Origin")
        if origin is not None:
            response.headers.extend(cors_headers(origin, self._service.settings.cors_origins))
        route = self._route()
        name = route.path if route else "unknown"
        metrics.request(request.method, name, response.status_code, metrics.now() - g.started)
        return response

    def _refuse(self, error: Exception) -> Response:
        refused = self._named(error)
        response = Response(errors.envelope(refused, g.request_id), errors.status_of(refused), content_type=JSON)
        for name, value in errors.headers_of(refused).items():
            response.headers[name] = value
        return response

    def _named(self, error: Exception) -> Refused:
        if isinstance(error, DatabaseBusy):
            log.log.warning("database busy", error=str(error.__cause__))
            route = self._route()
            if not g.ran and route is not None and route.writes and request.headers.get("Idempotency-Key"):
                return IdempotencyStoreUnavailable("The idempotency keys can't be read; nothing ran.", retryAfter=2)
            return error
        if isinstance(error, Refused):
            return error
        if isinstance(error, WerkzeugMethodNotAllowed):
            allowed = sorted(error.valid_methods or [])
            return MethodNotAllowed(f"{request.method} is not allowed here.", allowed=allowed)
        if isinstance(error, WerkzeugNotFound):
            return RouteNotFound("There is nothing at this path; GET /v1/openapi.json lists what there is.")
        if isinstance(error, HTTPException) and error.code is not None and error.code < 500:
            return BadInput(error.description or "The request can't be understood.")
        log.log.error("request failed", exc_info=error)
        return InternalError("Something went wrong on our side; the request id finds it in our log.")


def _keep(tx: Transaction, digest: bytes, body_sha256: bytes, response: Response) -> None:
    body = None if getattr(response, "secret", False) else response.get_data()
    headers = {name: value for name, value in response.headers.items() if name in ("ETag", "Location")}
    kept = idempotency.KeptAnswer(
        body_sha256, response.status_code, response.content_type or JSON, body, headers, times.EPOCH
    )
    idempotency.keep(tx, g.caller.tenant_id, digest, kept)


def _response(answer: Answer) -> Response:
    body: Any = answer.body
    response = Response(body, answer.status, headers=answer.headers, content_type=answer.content_type)
    response.secret = answer.secret  # type: ignore[attr-defined]
    return response


def _request_id(sent: str | None) -> str:
    return sent if sent is not None and _SANE.fullmatch(sent) else new_id()


def _rule(path: str) -> str:
    """A Flask rule from an OpenAPI path. Ids of agents and flows may hold any character, an encoded slash too."""
    rule = re.sub(r"\{(agentId|flowId)\}", r"<path:\1>", path)
    return re.sub(r"\{(\w+)\}", r"<\1>", rule)

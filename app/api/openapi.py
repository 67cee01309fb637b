"""OpenAPI 3.1 from the declared routes: what the service checks is what the document says."""

from __future__ import annotations

import re
from collections.abc import Iterable
from importlib.metadata import version
from inspect import cleandoc
from typing import Any

from apispec import APISpec
from apispec.ext.marshmallow import MarshmallowPlugin
from apispec.ext.marshmallow.openapi import OpenAPIConverter

from app.api.errors import status_of_class
from app.api.routes import JSON, Route
from app.api.schemas.base import ID_PATTERN, JsonSchema, Shape
from app.api.schemas.examples import EXAMPLES
from app.domain import errors
from app.domain.errors import Refused

_INTRODUCTION = """
Keeps corrections of AI agent runs and sees each one through to a fix.

Every error has the shape of `Error`; its `code` is stable, its `message` is for people. Times are RFC 3339 in UTC with
milliseconds. An unknown field is `400 unknown-field`, an unknown query parameter `400 bad-input`.
"""
_ERROR: JsonSchema = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["code", "message", "requestId"],
            "properties": {
                "code": {"type": "string", "description": "Stable, for programs."},
                "message": {"type": "string", "description": "For people."},
                "details": {"type": "object", "description": "What is specific to the code."},
                "requestId": {"type": "string", "description": "Also in the header X-Request-Id, and in our log."},
            },
        }
    },
}
_IDEMPOTENCY_KEY: JsonSchema = {
    "name": "Idempotency-Key",
    "in": "header",
    "description": "1 to 255 visible ASCII characters. The same key and body again within a day replays the answer.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[\\x21-\\x7e]+$"},
}
_REQUEST_ID: JsonSchema = {
    "name": "X-Request-Id",
    "in": "header",
    "description": "1 to 128 visible ASCII characters, echoed; one is made when there is none.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 128},
}
_HEADERS: dict[str, JsonSchema] = {
    name: {"description": why, "schema": {"type": "string"}}
    for name, why in {
        "X-Request-Id": "As sent, or made for this request.",
        "X-Idempotent-Replay": "`true` when this is the kept answer of an earlier request with the same key.",
        "ETag": "The state that this is, for If-Match and If-None-Match.",
        "WWW-Authenticate": "`Bearer`",
        "Retry-After": "Whole seconds after which to try again.",
    }.items()
}
_TELLING = {401: ("WWW-Authenticate",), 409: ("Retry-After",), 429: ("Retry-After",), 503: ("Retry-After",)}
"""Headers of an error, by its status."""

_KEYED = (
    errors.IdempotencyKeyBodyMismatch,
    errors.IdempotencyKeyInFlight,
    errors.IdempotencyKeyReplayWithheld,
    errors.IdempotencyStoreUnavailable,
)
_TEXT: JsonSchema = {"type": "string"}
_WHY: dict[int, str] = {
    200: "Done.",
    201: "Made.",
    202: "Accepted; workers do the rest.",
    204: "Done.",
    304: "Not changed since.",
}


class _Converter(OpenAPIConverter):
    """Fields and shapes describe themselves: a field by its ``described``, a shape by its docstring."""

    def field2property(self, field: Any) -> JsonSchema:
        described: JsonSchema = getattr(field, "described", dict)()
        found: JsonSchema = super().field2property(field)
        if isinstance(shape := getattr(field, "shape", None), Shape):
            items = self.resolve_nested_schema(shape)  # type: ignore[no-untyped-call]
            described = described | {"items": items}
        own = {"type": [described["type"], "null"]} if field.allow_none and "type" in described else {}
        return found | described | own

    def schema2jsonschema(self, schema: Any) -> JsonSchema:
        found: JsonSchema = super().schema2jsonschema(schema)  # type: ignore[no-untyped-call]
        kind = schema if isinstance(schema, type) else type(schema)
        if "__doc__" in vars(kind) and kind.__doc__:
            found["description"] = " ".join(cleandoc(kind.__doc__).split())
        if kind in EXAMPLES:
            found["examples"] = [EXAMPLES[kind]]
        return found


class _Plugin(MarshmallowPlugin):
    Converter = _Converter


def document(routes: Iterable[Route]) -> dict[str, Any]:
    """The OpenAPI document of ``routes``."""
    spec = APISpec(
        "Corrigenda",
        version("corrigenda"),
        "3.1.0",
        info={"description": cleandoc(_INTRODUCTION)},
        plugins=[_Plugin(schema_name_resolver=_name)],
        servers=[{"url": "/"}],
        security=[{"bearerAuth": []}],
    )
    spec.components.security_scheme("bearerAuth", {"type": "http", "scheme": "bearer"})
    spec.components.schema("Error", _ERROR)
    for route in routes:
        spec.path(route.path, operations={route.method.lower(): _operation(route)})
    made: dict[str, Any] = spec.to_dict()
    return made


def _name(schema: Any) -> str:
    kind = schema if isinstance(schema, type) else type(schema)
    return kind.__name__.removesuffix("Shape")


def _operation(route: Route) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": _camel(route.view.__name__),
        "summary": route.summary,
        "tags": [route.tag],
        "parameters": _parameters(route),
        "responses": _answers(route) | _refusals(route),
    }
    if route.description:
        operation["description"] = route.description
    if route.body is not None:
        content = {media: {"schema": route.body} for media in route.takes}
        operation["requestBody"] = {"required": route.body_required, "content": content}
    if route.public:
        operation["security"] = []
    return operation


def _camel(name: str) -> str:
    return re.sub(r"_(\w)", lambda match: match.group(1).upper(), name)


def _parameters(route: Route) -> list[Any]:
    found: list[Any] = [_path_parameter(name) for name in re.findall(r"\{(\w+)\}", route.path)]
    if route.query is not None:
        found.append({"in": "query", "schema": route.query})
    found += [
        {"name": name, "in": "header", "description": why, "schema": {"type": "string"}}
        for name, why in route.headers.items()
    ]
    if route.keyed:
        found.append(_IDEMPOTENCY_KEY)
    return [*found, _REQUEST_ID]


def _path_parameter(name: str) -> JsonSchema:
    schema: JsonSchema = {"type": "string", "minLength": 1}
    if name in ("runId", "projectId"):
        schema |= {"maxLength": 128, "pattern": ID_PATTERN}
    return {"name": name, "in": "path", "required": True, "schema": schema}


def _answers(route: Route) -> dict[str, Any]:
    return {str(status): _answer(route, status, shape) for status, shape in route.answers.items()}


def _answer(route: Route, status: int, shape: Any) -> dict[str, Any]:
    said: dict[str, Any] = {"description": _WHY.get(status, "Done."), "headers": _headers_of(route)}
    if shape is not None:
        schema = {"type": "array", "items": shape} if shape.bare_list else shape
        if route.participants not in (None, shape):
            schema = {"anyOf": [shape, route.participants]}
        said["content"] = {media: {"schema": schema} for media in route.media_types}
    elif status == 200:
        said["content"] = {
            media: {"schema": {} if media == JSON else {"type": "string"}} for media in route.media_types
        }
    return said


def _headers_of(route: Route) -> dict[str, Any]:
    names = ["X-Request-Id"]
    if route.keyed:
        names.append("X-Idempotent-Replay")
    if 304 in route.answers or "If-Match" in route.headers:
        names.append("ETag")
    return {name: _HEADERS[name] for name in names}


def _refusals(route: Route) -> dict[str, Any]:
    by_status: dict[int, list[str]] = {}
    for kind in dict.fromkeys([*_shared(route), *route.errors]):
        by_status.setdefault(status_of_class(kind), []).append(kind.code)
    return {str(status): _refusal(route, status, codes) for status, codes in sorted(by_status.items())}


def _shared(route: Route) -> list[type[Refused]]:
    kinds: list[type[Refused]] = [errors.BadInput, errors.RequestTooLarge, errors.InternalError, errors.DatabaseBusy]
    if route.keyed:
        kinds.append(errors.UnknownField)
    if "{" in route.path:
        kinds.append(route.missing)
    if not route.public:
        kinds += [errors.NotAuthenticated, errors.TokenRevoked, errors.TokenExpired, errors.RateLimitExceeded]
        kinds.append(errors.PermissionDenied)
    if route.keyed:
        kinds += _KEYED
    return kinds


def _refusal(route: Route, status: int, codes: list[str]) -> dict[str, Any]:
    said = {"type": "object", "properties": {"error": {"properties": {"code": {"enum": codes}}}}}
    schema = {"allOf": [{"$ref": "#/components/schemas/Error"}, said]}
    content: dict[str, Any] = {JSON: {"schema": schema}}
    if route.refusals is not None:
        content = {media: {"schema": route.refusals} for media in route.media_types}
    return {
        "description": ", ".join(f"`{code}`" for code in codes),
        "headers": {name: _HEADERS[name] for name in ("X-Request-Id", *_TELLING.get(status, ()))},
        "content": content,
    }

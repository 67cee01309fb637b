"""The one table from errors to HTTP, and the envelope that every error travels in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson
from werkzeug.datastructures import Headers

from app.api.routes import JSON
from app.domain import errors

STATUS: dict[type[errors.Refused], int] = {
    errors.BadInput: 400,
    errors.UnknownField: 400,
    errors.ScopeInvalid: 400,
    errors.ItemNotFound: 400,
    errors.CorrectorGroupNotApplicable: 400,
    errors.NotAuthenticated: 401,
    errors.PermissionDenied: 403,
    errors.NotFound: 404,
    errors.MethodNotAllowed: 405,
    errors.Conflict: 409,
    errors.RunErased: 410,
    errors.PreconditionFailed: 412,
    errors.RequestTooLarge: 413,
    errors.UnsupportedMediaType: 415,
    errors.RateLimitExceeded: 429,
    errors.InternalError: 500,
    errors.DatabaseBusy: 503,
    errors.NotReady: 503,
}
"""The status of each error; a class that isn't here has its base's."""


def status_of(error: errors.Refused) -> int:
    """The HTTP status of ``error``, by the nearest class in ``STATUS``."""
    return status_of_class(type(error))


def status_of_class(kind: type[errors.Refused]) -> int:
    """The HTTP status of errors of ``kind``."""
    for base in kind.__mro__:
        if base in STATUS:
            return STATUS[base]
    raise KeyError(kind)


def headers_of(error: errors.Refused) -> dict[str, str]:
    """What else an error says: how to authenticate, what is allowed, when to try again."""
    headers: dict[str, str] = {}
    if isinstance(error, errors.NotAuthenticated):
        headers["WWW-Authenticate"] = "Bearer"
    if isinstance(error, errors.MethodNotAllowed):
        headers["Allow"] = ", ".join(error.details.get("allowed", []))
    if "retryAfter" in error.details:
        headers["Retry-After"] = str(error.details["retryAfter"])
    return headers


Envelope = Callable[[errors.Refused, str, Headers], tuple[bytes, str]]
"""From an error, the request's id and headers to the body of the answer and its content type."""


def envelope(error: errors.Refused, request_id: str, _: Headers) -> tuple[bytes, str]:
    """The JSON body of an error."""
    return orjson.dumps({"error": body_of(error) | {"requestId": request_id}}), JSON


def body_of(error: errors.Refused) -> dict[str, Any]:
    """``{code, message, details?}``, as it also stands in a line of an import's answer."""
    body: dict[str, Any] = {"code": error.code, "message": sane(error.message)}
    details = {name: value for name, value in error.details.items() if name != "retryAfter"}
    if details:
        body["details"] = _sane_deep(details)
    return body


def sane(text: str) -> str:
    """``text`` with lone surrogates replaced, so that it can be sent at all."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _sane_deep(value: Any) -> Any:
    if isinstance(value, str):
        return sane(value)
    if isinstance(value, dict):
        return {sane(str(key)): _sane_deep(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_sane_deep(item) for item in value]
    return value

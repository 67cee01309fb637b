"""OTLP/HTTP as its specification has it: bodies packed or plain, protobuf or JSON, answers and errors in the same form.

Of protobuf's JSON OTLP differs in three things: ids are hex, enums are numbers, names are lowerCamelCase and no others.
"""

from __future__ import annotations

import base64
import binascii
import gzip
import io
import math
import zlib
from typing import Any, Final, Literal, TypeGuard

import orjson
from google.protobuf import json_format
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import DecodeError, Message
from google.rpc.error_details_pb2 import BadRequest
from google.rpc.status_pb2 import Status
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from werkzeug.datastructures import Headers
from werkzeug.http import parse_options_header

from app.api.errors import sane, status_of
from app.api.limits import too_large
from app.api.routes import JSON
from app.domain import json_text
from app.domain.errors import BadInput, Refused, UnsupportedMediaType

Form = Literal["application/x-protobuf", "application/json"]

PROTOBUF: Final = "application/x-protobuf"
_FORMS: tuple[Form, ...] = (PROTOBUF, JSON)
_HEX = frozenset({"traceId", "spanId", "parentSpanId"})


def form_of(headers: Headers) -> Form:
    """How the request speaks, and wants to be spoken to.

    :raises UnsupportedMediaType: for any other ``Content-Type``.
    """
    form = _form(headers)
    if form is None:
        raise UnsupportedMediaType(f"Content-Type must be {PROTOBUF} or {JSON}.")
    return form


def _form(headers: Headers) -> Form | None:
    kind = parse_options_header(headers.get("Content-Type"))[0].lower()
    return kind if _is_form(kind) else None


def _is_form(kind: str) -> TypeGuard[Form]:
    return kind in _FORMS


def unpacked(body: bytes, headers: Headers, limit: int) -> bytes:
    """``body`` without its ``Content-Encoding``; no more than ``limit`` bytes are ever unpacked.

    :raises UnsupportedMediaType: for another encoding than gzip.
    :raises RequestTooLarge: if it is over ``limit`` bytes unpacked.
    :raises BadInput: if it isn't what it says.
    """
    encoding = headers.get("Content-Encoding", "identity").strip().lower()
    if encoding in ("identity", ""):
        return body
    if encoding not in ("gzip", "x-gzip"):
        raise UnsupportedMediaType("Content-Encoding must be gzip, or none.")
    try:
        plain = gzip.GzipFile(fileobj=io.BytesIO(body)).read(limit + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise BadInput(f"The body is not gzip: {error}.") from None
    if len(plain) > limit:
        raise too_large(limit)
    return plain


def request_of(body: bytes, form: Form) -> ExportTraceServiceRequest:
    """The request in ``body``.

    :raises BadInput: if it is none.
    """
    request = ExportTraceServiceRequest()
    try:
        if form == PROTOBUF:
            request.ParseFromString(body)
        else:
            json_format.ParseDict(_as_protobuf(_json(body), request.DESCRIPTOR), request, ignore_unknown_fields=True)
    except (DecodeError, json_format.ParseError, ValueError) as error:
        raise BadInput(f"The body is not an ExportTraceServiceRequest: {sane(str(error))}") from None
    return request


def _json(body: bytes) -> Any:
    if json_text.too_deep(body):
        raise BadInput(f"The body is nested deeper than {json_text.MAX_DEPTH} levels.", maxDepth=json_text.MAX_DEPTH)
    return orjson.loads(body)


def _as_protobuf(value: Any, message: Descriptor) -> Any:
    """A message's JSON as protobuf has it, without what it doesn't know."""
    if not isinstance(value, dict):
        raise ValueError(f"{message.name} must be a JSON object.")
    known = ((field, value[field.json_name]) for field in message.fields if value.get(field.json_name) is not None)
    return {
        field.json_name: [_field(part, field) for part in held]
        if field.is_repeated and isinstance(held, list)
        else _field(held, field)
        for field, held in known
    }


def _field(value: Any, field: FieldDescriptor) -> Any:
    if field.message_type is not None:
        return _as_protobuf(value, field.message_type)
    if field.enum_type is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
        raise ValueError(f"{field.json_name} must be a number.")
    if field.json_name in _HEX and isinstance(value, str):
        try:
            return base64.b64encode(binascii.unhexlify(value)).decode()
        except ValueError:
            raise ValueError(f"{field.json_name} must be hex digits, two a byte.") from None
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{field.json_name} is out of range.")
    return value


def written(message: Message, form: Form) -> bytes:
    """``message`` in that form."""
    if form == PROTOBUF:
        return message.SerializeToString()
    return orjson.dumps(json_format.MessageToDict(message))


def refusal(error: Refused, _: str, headers: Headers) -> tuple[bytes, str]:
    """An error as a ``Status`` in the request's form, or in JSON where that is none that we know: an ``Envelope``."""
    form = _form(headers) or JSON
    status = Status(message=sane(f"{error.code}: {error.message}"))
    if status_of(error) == 400:
        bad = BadRequest()
        issues = error.details.get("issues") or [{"path": "", "message": error.message}]
        for issue in issues:
            bad.field_violations.add(field=sane(issue["path"]), description=sane(issue["message"]))
        status.details.add().Pack(bad)
    return written(status, form), form

"""From the messages of OTLP to spans of ours."""

from __future__ import annotations

import base64
import math
from collections.abc import Iterable, Iterator
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1 import trace_pb2

from app.domain.otel import Attributes, Event, Span, reduced

PROJECT = "corrigenda.project"
_SAYS_WHERE, _ELSEWHERE = (
    trace_pb2.SPAN_FLAGS_CONTEXT_HAS_IS_REMOTE_MASK,
    trace_pb2.SPAN_FLAGS_CONTEXT_IS_REMOTE_MASK,
)


def spans_of(request: ExportTraceServiceRequest, project_id: str | None) -> Iterator[tuple[str | None, Span | None]]:
    """Each span with the project that its resource names, else ``project_id``; ``None`` for one whose ids are none."""
    for of_resource in request.resource_spans:
        resource = _attributes(of_resource.resource.attributes)
        named, version = _text(resource.get(PROJECT)), _text(resource.get("service.version"))
        for of_scope in of_resource.scope_spans:
            for span in of_scope.spans:
                yield named or project_id, _span(span, version)


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _span(span: trace_pb2.Span, version: str | None) -> Span | None:
    if not (_is_id(span.trace_id, 16) and _is_id(span.span_id, 8)):
        return None
    parent_id = span.parent_span_id.hex() if any(span.parent_span_id) else None
    return reduced(
        Span(
            span.trace_id.hex(),
            span.span_id.hex(),
            parent_id,
            span.name,
            span.start_time_unix_nano,
            span.end_time_unix_nano,
            failed=span.status.code == trace_pb2.Status.STATUS_CODE_ERROR,
            local_parent=parent_id is not None and span.flags & (_SAYS_WHERE | _ELSEWHERE) == _SAYS_WHERE,
            version=version,
            attributes=_attributes(span.attributes),
            events=tuple(Event(event.name, _attributes(event.attributes)) for event in span.events),
        )
    )


def _is_id(value: bytes, length: int) -> bool:
    return len(value) == length and any(value)


def _attributes(pairs: Iterable[KeyValue]) -> Attributes:
    return {pair.key: value for pair in pairs if (value := _value(pair.value)) is not None}


def _value(value: AnyValue) -> Any:
    """As JSON has it: bytes in base64, and numbers that are none in words."""
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_value(part) for part in value.array_value.values]
    if kind == "kvlist_value":
        return {pair.key: _value(pair.value) for pair in value.kvlist_value.values}
    if kind == "bytes_value":
        return base64.b64encode(value.bytes_value).decode()
    if kind == "double_value" and not math.isfinite(value.double_value):
        return str(value.double_value)
    return getattr(value, kind) if kind in ("string_value", "bool_value", "int_value", "double_value") else None

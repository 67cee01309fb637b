"""OTLP requests as exporters make them, in JSON and protobuf."""

from __future__ import annotations

import gzip
import json
import uuid
from typing import Any

from google.rpc.status_pb2 import Status
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from werkzeug.test import TestResponse

from tests.client import Client

PATH = "/otlp/v1/traces"
JSON, PROTOBUF = "application/json", "application/x-protobuf"
START = 1_796_040_000_000_000_000


def attribute(key: str, value: Any) -> dict[str, Any]:
    kind = {bool: "boolValue", int: "intValue", float: "doubleValue"}.get(type(value), "stringValue")
    return {"key": key, "value": {kind: value}}


def attributes(values: dict[str, Any]) -> list[dict[str, Any]]:
    return [attribute(key, value) for key, value in values.items()]


def a_span(trace: str, id: str, parent: str = "", at: int = 0, took: int = 1, **more: Any) -> dict[str, Any]:
    start = START + at * 10**9
    made = {
        "traceId": trace, "spanId": id, "name": more.pop("name", "span"), "kind": 1,
        "startTimeUnixNano": str(start), "endTimeUnixNano": start + took * 10**9,
        "attributes": attributes(more.pop("says", {})),
    }  # fmt: skip
    return made | ({"parentSpanId": parent} if parent else {}) | more


def an_agent_span(trace: str, id: str = "00000000000000a1", parent: str = "", **says: Any) -> dict[str, Any]:
    said = {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": "support",
        "gen_ai.input.messages": '[{"role":"user","parts":[{"type":"text","content":"Cancel."}]}]',
        "gen_ai.output.messages": '[{"role":"assistant","parts":[{"type":"text","content":"Done."}]}]',
    }
    return a_span(trace, id, parent, took=9, says=said | says)


def a_tool_span(
    trace: str, id: str = "00000000000000b1", parent: str = "00000000000000a1", **more: Any
) -> dict[str, Any]:
    said = {
        "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "cancel",
        "gen_ai.tool.call.arguments": '{"order":"A-1"}', "gen_ai.tool.call.result": '{"ok":true}',
    }  # fmt: skip
    return a_span(trace, id, parent, at=more.pop("at", 1), says=said | more)


def request_of(*spans: dict[str, Any], project: str | None = "p", **resource: str) -> dict[str, Any]:
    said = {"service.version": "3.1"} | resource | ({"corrigenda.project": project} if project else {})
    return {"resourceSpans": [{"resource": {"attributes": attributes(said)}, "scopeSpans": [{"spans": [*spans]}]}]}


def a_trace() -> str:
    return uuid.uuid4().hex


def in_protobuf(body: dict[str, Any]) -> bytes:
    request = ExportTraceServiceRequest()
    for of_resource in body["resourceSpans"]:
        resource = request.resource_spans.add()
        _put(resource.resource.attributes, of_resource["resource"]["attributes"])
        spans = resource.scope_spans.add().spans
        for span in of_resource["scopeSpans"][0]["spans"]:
            made = spans.add(
                trace_id=bytes.fromhex(span["traceId"]),
                span_id=bytes.fromhex(span["spanId"]),
                parent_span_id=bytes.fromhex(span.get("parentSpanId", "")),
                name=span["name"],
                start_time_unix_nano=int(span["startTimeUnixNano"]),
                end_time_unix_nano=int(span["endTimeUnixNano"]),
                flags=span.get("flags", 0),
            )
            _put(made.attributes, span["attributes"])
            made.status.code = span.get("status", {}).get("code", 0)
    return request.SerializeToString()


def _put(into: Any, pairs: list[dict[str, Any]]) -> None:
    for pair in pairs:
        into.add(key=pair["key"]).value.string_value = pair["value"]["stringValue"]


def export(client: Client, body: Any, form: str = JSON, *, packed: bool = False, **headers: str) -> TestResponse:
    """Send a request, as values or as bytes; whatever is answered is in the same form."""
    if not isinstance(body, bytes):
        body = in_protobuf(body) if form == PROTOBUF else json.dumps(body).encode()
    sent = {"Content-Type": form} | ({"Content-Encoding": "gzip"} if packed else {}) | headers
    answer = client.post(PATH, data=gzip.compress(body) if packed else body, headers=sent)
    assert answer.content_type == form
    return answer


def turned_away(answer: TestResponse) -> tuple[int, str]:
    """How many spans were rejected by a 200, and why."""
    assert answer.status_code == 200, answer.data
    if answer.content_type == JSON:
        assert set(answer.json) <= {"partialSuccess"}
        partial = answer.json.get("partialSuccess", {})
        return int(partial.get("rejectedSpans", 0)), partial.get("errorMessage", "")
    response = ExportTraceServiceResponse.FromString(answer.data)
    return response.partial_success.rejected_spans, response.partial_success.error_message


def status(answer: TestResponse) -> tuple[int, str]:
    """The HTTP status of an error, and our code in its message."""
    if answer.content_type == JSON:
        return answer.status_code, str(answer.json["message"]).partition(":")[0]
    return answer.status_code, Status.FromString(answer.data).message.partition(":")[0]

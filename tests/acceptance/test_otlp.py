"""An instrumented program sends its spans with OpenTelemetry's own SDK and exporter, and finds its run."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator

import pytest
from flask import Flask
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.trace import Status, StatusCode
from sqlalchemy import Engine
from werkzeug.serving import make_server

from tests.client import Client
from tests.factories import a_project


@pytest.fixture
def address(flask_app: Flask) -> Iterator[str]:
    server = make_server("127.0.0.1", 0, flask_app, threaded=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/otlp"
    server.shutdown()
    thread.join()
    server.server_close()


class Watched(SpanExporter):
    """An exporter, and what came of each of its exports."""

    def __init__(self, inner: OTLPSpanExporter) -> None:
        self.inner, self.results = inner, list[SpanExportResult]()

    def export(self, spans: object) -> SpanExportResult:
        self.results.append(self.inner.export(spans))  # type: ignore[arg-type]
        return self.results[-1]

    def shutdown(self) -> None:
        self.inner.shutdown()


class Program:
    """Traced with an exporter as its environment would configure it; each span is sent alone as soon as it ends."""

    def __init__(self, address: str, secret: str | None, compression: Compression, **resource: str) -> None:
        headers = {"Authorization": f"Bearer {secret}"}
        exporter = OTLPSpanExporter(f"{address}/v1/traces", headers=headers, compression=compression, timeout=10)
        self.exporter = Watched(exporter)
        self.provider = TracerProvider(resource=Resource.create({"service.version": "3.1", **resource}))
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.tracer = self.provider.get_tracer("program")
        self.ended: list[ReadableSpan] = []

    def answer(self, *, fail: bool = False) -> str:
        """Answer a question with a tool; the trace's id."""
        asked = [{"role": "user", "parts": [{"type": "text", "content": "Cancel A-1."}]}]
        said = [{"role": "assistant", "parts": [{"type": "text", "content": "Done."}], "finish_reason": "stop"}]
        start = self.tracer.start_as_current_span
        with start("POST /chat"), start("invoke_agent support") as agent:
            agent.set_attributes({"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "support"})
            agent.set_attribute("gen_ai.conversation.id", "chat-17")
            with start("execute_tool cancel_order") as tool:
                tool.set_attributes({"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "cancel_order"})
                tool.set_attribute("gen_ai.tool.call.arguments", json.dumps({"order": "A-1"}))
                tool.set_attribute("gen_ai.tool.call.result", json.dumps({"ok": True}))
            agent.set_attribute("gen_ai.input.messages", json.dumps(asked))
            agent.set_attribute("gen_ai.output.messages", json.dumps(said))
            if fail:
                agent.set_status(Status(StatusCode.ERROR, "no"))
            trace_id = agent.get_span_context().trace_id
        return f"{trace_id:032x}"

    def stop(self) -> None:
        self.provider.shutdown()


@pytest.mark.parametrize("compression", [Compression.NoCompression, Compression.Gzip])
def test_an_instrumented_program_finds_its_run(
    address: str, engine: Engine, admin: Client, tenant: str, compression: Compression
) -> None:
    a_project(engine, tenant)
    program = Program(address, admin.secret, compression, **{"corrigenda.project": "p"})
    done, failed = program.answer(), program.answer(fail=True)
    program.stop()
    assert program.exporter.results == [SpanExportResult.SUCCESS] * 6
    run = admin.get(f"/v1/runs/{done}").json
    assert run["subject"] == {"kind": "agent", "id": "support", "version": "3.1"}
    assert (run["status"], run["conversationId"]) == ("completed", "chat-17")
    assert run["calls"] == [{"toolId": "cancel_order", "arguments": {"order": "A-1"}, "result": {"ok": True}}]
    assert run["output"][0]["parts"][0]["content"] == "Done."
    assert [message["role"] for message in run["messages"]] == ["user", "assistant"]
    assert admin.get(f"/v1/runs/{failed}").json["status"] == "failed"
    said = {"runId": done, "decisions": "wrong", "mustNotCall": ["cancel_order"], "why": "Nobody asked for it."}
    assert admin.post("/v1/corrections", said).status_code == 201


def test_a_refusal_is_no_success_and_isnt_tried_again(address: str, engine: Engine, admin: Client, tenant: str) -> None:
    a_project(engine, tenant)
    for secret, project in (("cgd_unknown", "p"), (admin.secret, "elsewhere")):
        program = Program(address, secret, Compression.Gzip, **{"corrigenda.project": project})
        trace = program.answer()
        program.stop()
        assert program.exporter.results == [SpanExportResult.FAILURE] * 3
        assert admin.get(f"/v1/runs/{trace}").status_code == 404

"""``/otlp``: where OpenTelemetry exporters send spans."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from threading import Lock

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from app.api import otlp_wire
from app.api.errors import sane
from app.api.otlp_spans import PROJECT, spans_of
from app.api.otlp_wire import PROTOBUF, Form
from app.api.routes import JSON, Answer, Call, Routes
from app.api.schemas.base import ID_PATTERN
from app.api.schemas.otlp import ExportTraceServiceRequestShape, ExportTraceServiceResponseShape, StatusShape
from app.domain.errors import BadInput, PermissionDenied, ProjectNotFound, Refused, UnsupportedMediaType
from app.domain.otel import Span
from app.services.join_spans import join
from app.services.projects import project_for
from app.store.engine import reading
from app.store.spans import Trace
from app.transaction import transaction

BASE = "/otlp/"
HEADER = "X-Corrigenda-Project"
_MOST_WHYS = 10
_READING = Lock()
"""Held while a request is read: some bytes can stand for a hundred times as many in memory, but not of many at once."""

routes = Routes("otlp")

Sent = dict[str | None, list[Span | None]]
"""Spans by the project that they name."""


@routes.add(
    "POST",
    "/otlp/v1/traces",
    body=ExportTraceServiceRequestShape,
    answers={200: ExportTraceServiceResponseShape},
    errors=(PermissionDenied, ProjectNotFound, UnsupportedMediaType),
    undoes=False,
    refusals=StatusShape,
    takes=(JSON, PROTOBUF),
    media_types=(JSON, PROTOBUF),
    headers={HEADER: "The project of spans whose resource has no attribute `corrigenda.project`."},
)
def export_traces(call: Call) -> Answer:
    """Take spans in, by OTLP/HTTP.

    The endpoint of an OpenTelemetry exporter is `https://host/otlp`. Spans of agents and workflows (GenAI semantic
    conventions, OpenInference) become runs, of which the id is the trace's in hex. Protobuf and JSON, plain and gzip;
    the answer and errors come in the request's form. The resource attribute `corrigenda.project` names the project, or
    else the header; needs write on it. Batches may repeat, and come late or out of order.
    """
    form = otlp_wire.form_of(call.headers)
    with _READING:
        sent = _sent(call, form)
    return Answer(200, otlp_wire.written(_told(_taken(call, sent)), form), form)


def _sent(call: Call, form: Form) -> Sent:
    body = otlp_wire.unpacked(call.raw, call.headers, call.service.settings.max_body_bytes)
    sent: Sent = defaultdict(list)
    for project_id, span in spans_of(otlp_wire.request_of(body, form), call.headers.get(HEADER) or None):
        sent[project_id].append(span)
    return sent


def _taken(call: Call, sent: Sent) -> Counter[str]:
    """Take in what may be taken; how many spans were turned away, by why.

    :raises Refused: as the first project was, if all are refused.
    """
    turned_away: Counter[str] = Counter()
    refused = {project_id: error for project_id in sent if (error := _refused(call, project_id))}
    if refused and len(refused) == len(sent):
        raise next(iter(refused.values()))
    for project_id, spans in sent.items():
        if error := refused.get(project_id):
            turned_away[f"{error.code}: {error.message}"] += len(spans)
        elif project_id is not None:
            turned_away.update(_joined(call, project_id, spans))
    return turned_away


def _refused(call: Call, project_id: str | None) -> Refused | None:
    """Why nothing may be sent to that project, if so."""
    if project_id is None:
        return BadInput(f"Name the project: by the resource attribute {PROJECT}, or by the header {HEADER}.")
    try:
        if not re.fullmatch(ID_PATTERN, project_id):
            raise ProjectNotFound.named(project_id)
        with reading(call.service.engine) as db:
            project_for(db, call.caller, project_id, "write")
    except (ProjectNotFound, PermissionDenied) as error:
        return error
    return None


def _joined(call: Call, project_id: str, spans: Iterable[Span | None]) -> Counter[str]:
    """A transaction for each trace, so that nobody who waits for one holds another."""
    turned_away: Counter[str] = Counter()
    traces: dict[str, list[Span]] = defaultdict(list)
    for span in spans:
        if span is None:
            turned_away["bad-input: a trace's id has 16 bytes, a span's 8, not all of them zero"] += 1
        else:
            traces[span.trace_id].append(span)
    for trace_id, of_trace in traces.items():
        with transaction(call.service.engine) as tx:
            joined = join(tx, Trace(call.caller.tenant_id, project_id, trace_id), of_trace)
        if joined.rejected:
            turned_away[f"{joined.why} ({trace_id})"] += joined.rejected
    return turned_away


def _told(turned_away: Counter[str]) -> ExportTraceServiceResponse:
    response = ExportTraceServiceResponse()
    if turned_away:
        told = [f"{why}: {count} spans" if count > 1 else why for why, count in turned_away.most_common(_MOST_WHYS)]
        response.partial_success.rejected_spans = turned_away.total()
        response.partial_success.error_message = sane("; ".join(told))
    return response

"""``/v1/test-sets``: corrected runs as cases for a test runner."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from werkzeug.datastructures import MIMEAccept
from werkzeug.http import parse_accept_header

from app.api.routes import JSON, NDJSON, Answer, Call, Routes, after, page
from app.api.schemas.test_sets import CaseExport, CasePage, CaseQuery
from app.api.streams import Stream, download, stream
from app.domain import eval_shapes
from app.domain.cases import Case, case_json
from app.domain.filtering import filters_of
from app.domain.permission import reach
from app.store import test_sets
from app.store.engine import Row
from app.store.test_sets import Chosen

routes = Routes("test sets")

_BATCH = 10
"""Copies may have megabytes: few of them are in memory at a time."""


@dataclass(frozen=True, slots=True)
class Format:
    """How a download writes cases: one by one, with what goes before, between and after them."""

    write: Callable[[Case], str]
    media_type: str = NDJSON
    file_name: str = "test-set.jsonl"
    opening: str = ""
    between: str = "\n"
    closing: str = "\n"
    empty: str = ""


FORMATS = {
    "jsonl": Format(case_json),
    "openai-evals": Format(eval_shapes.openai_evals),
    "inspect": Format(eval_shapes.inspect),
    "promptfoo": Format(eval_shapes.promptfoo, JSON, "test-set.json", "[\n", ",\n", "\n]\n", "[]\n"),
}


@routes.add(
    "GET",
    "/v1/test-sets",
    query=CaseQuery,
    answers={200: CasePage},
    media_types=(JSON, NDJSON),
    headers={"Accept": "With application/x-ndjson the answer is one stream, a case a line."},
)
def list_cases(call: Call) -> Answer:
    """Corrected runs as cases, newest first by first correction.

    The filters choose runs; all live corrections of a chosen run count, at their group's weight. Replays and erased
    runs are left out. With Accept: application/x-ndjson the answer is one stream of all cases.
    """
    if _wants_ndjson(call.headers.get("Accept")):
        return Answer(200, _streamed(call, FORMATS["jsonl"]), NDJSON)
    limit = call.query["limit"]
    rows = test_sets.newest(
        call.db, call.caller.tenant_id, _chosen(call), reach(call.caller, "read"), limit + 1, after(call)
    )
    return page(call, rows, limit, lambda case: (case.captured_at, case.run_id), case_json)


@routes.add("GET", "/v1/test-sets/export", query=CaseExport, answers={200: None}, media_types=(NDJSON, JSON))
def export_cases(call: Call) -> Answer:
    """Download a test set in the shape that a test runner reads.

    ``jsonl``: the cases; ``openai-evals``: a samples.jsonl; ``inspect``: a file for json_dataset; ``promptfoo``: a JSON
    file of tests.
    """
    chosen = FORMATS[call.query["format"]]
    return download(chosen.file_name, chosen.media_type, _streamed(call, chosen))


def _wants_ndjson(accept: str | None) -> bool:
    return parse_accept_header(accept, MIMEAccept).best_match([JSON, NDJSON]) == NDJSON


def _chosen(call: Call) -> Chosen:
    filters = filters_of(call.query, call.caller.principal)
    return Chosen(replace(filters, project_id=call.query.get("project_id")), tuple(call.query.get("segment", ())))


def _streamed(call: Call, form: Format) -> Stream:
    sql, params = test_sets.cases_sql(call.caller.tenant_id, _chosen(call), reach(call.caller, "read"))
    return stream(call, sql, params, lambda rows: _written(form, rows), _BATCH)


def _written(form: Format, rows: Iterator[Row]) -> Iterator[str]:
    first = next(rows, None)
    if first is None:
        yield form.empty
        return
    yield form.opening + form.write(test_sets.case_of(first))
    for row in rows:
        yield form.between + form.write(test_sets.case_of(row))
    yield form.closing

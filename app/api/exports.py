"""``/v1/corrections/export``: the rows of the list as a file of any size."""

from __future__ import annotations

from collections.abc import Iterator

from app.api.routes import NDJSON, Answer, Call, Routes
from app.api.schemas.exports import CorrectionExport
from app.api.streams import download, stream
from app.domain import spreadsheet
from app.domain.errors import ScopeInvalid
from app.domain.filtering import filters_of
from app.domain.permission import reach
from app.store import listings
from app.store.engine import Row

CSV = "text/csv; charset=utf-8; header=present"

routes = Routes("corrections")


@routes.add(
    "GET",
    "/v1/corrections/export",
    query=CorrectionExport,
    answers={200: None},
    errors=(ScopeInvalid,),
    media_types=(NDJSON, "text/csv"),
)
def export_corrections(call: Call) -> Answer:
    """Download corrections as JSON Lines or CSV.

    Takes the list's filters; the rows are those of the list, newest first, without copies. In CSV nested values are
    JSON, and a cell that a spreadsheet would run as a formula has a ' in front.
    """
    filters = filters_of(call.query, call.caller.principal)
    sql, params = listings.everything(call.caller.tenant_id, filters, reach(call.caller, "read"))
    if call.query["format"] == "csv":
        return download("corrections.csv", CSV, stream(call, sql, params, _csv))
    return download("corrections.jsonl", NDJSON, stream(call, sql, params, _jsonl))


def _jsonl(rows: Iterator[Row]) -> Iterator[str]:
    return (f"{text}\n" for (text,) in rows)


def _csv(rows: Iterator[Row]) -> Iterator[str]:
    yield spreadsheet.header()
    for (text,) in rows:
        yield spreadsheet.line(text)

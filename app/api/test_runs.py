"""``/v1/test-runs``."""

from __future__ import annotations

import orjson

from app.api.routes import Answer, Call, Routes, after, answer, page
from app.api.schemas.test_runs import TestRunPage, TestRunQuery, TestRunShape, TestRunTaken, TestRunWanted
from app.domain.errors import PermissionDenied, ProjectNotFound, TestRunNotFound
from app.domain.model import Subject
from app.domain.permission import may, reach
from app.services.report import Report, report
from app.store import test_runs

routes = Routes("test runs")


@routes.add(
    "POST",
    "/v1/test-runs",
    body=TestRunWanted,
    answers={202: TestRunTaken},
    errors=(PermissionDenied, ProjectNotFound),
)
def post_test_run(call: Call) -> Answer:
    """Report a test run.

    It says of corrections whether the tested version gets them right: by a verdict, or by the calls that were observed.
    The newest verdict for the version that a project runs fixes a correction, or reopens it; one for another version
    waits until it runs. Needs write on the project.
    """
    body = call.body
    subject = Subject(body["subject"]["kind"], body["subject"]["id"], body["subject"]["version"])
    wanted = Report(body["project_id"], subject, tuple(body["results"]), body.get("source"), body.get("at"))
    taken = report(call.tx, call.caller, wanted)
    return answer({"id": taken.id, "status": "processing", "counts": taken.counts}, 202)


@routes.add("GET", "/v1/test-runs", query=TestRunQuery, answers={200: TestRunPage})
def list_test_runs(call: Call) -> Answer:
    """List the test runs of projects that the caller can read, newest first."""
    limit, project_id = call.query["limit"], call.query.get("project_id")
    where = reach(call.caller, "read")
    rows = test_runs.newest(call.db, call.caller.tenant_id, where, project_id, limit + 1, after(call))
    return page(call, rows, limit, lambda row: row[0], lambda row: orjson.dumps(row[1]).decode())


@routes.add("GET", "/v1/test-runs/{testRunId}", answers={200: TestRunShape}, missing=TestRunNotFound)
def get_test_run(call: Call) -> Answer:
    """Fetch a test run: whether it is applied, and what came of it."""
    shown = test_runs.show(call.db, call.caller.tenant_id, call.path["testRunId"])
    if shown is None or not may(call.caller, "read", shown.project):
        raise TestRunNotFound("There is no such test run.")
    return answer(shown.row)

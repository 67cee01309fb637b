"""The demo's next version: tested on three corrections, deployed, and what that did to them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from app.demo.load import PROJECT, Demo
from app.failure import Failure
from app.remote import accepted

_SUBJECT = {"kind": "agent", "id": "support"}
_OLD, _NEW = "1.3.0", "1.4.0"
_WAIT_SECONDS = 60.0
_APPROVAL = {"tool": "request_approval", "args": {"orderId": "FF-20931", "amount": 389.0, "reason": "defective"}}
_WINDOW = {"tool": "check_return_window", "args": {"orderId": "FF-20655", "sku": "STOVE-TINDE"}}
_OBSERVED: dict[str, dict[str, Any]] = {
    "s-1001": {"observed": {"calls": [{"tool": "lookup_order", "args": {"orderId": "FF-20931"}}, _APPROVAL]}},
    "s-1006": {"observed": {"calls": [_WINDOW]}, "answerVerdict": "right"},
    "s-1015": {"observed": {"calls": []}, "answerVerdict": "wrong"},
}
"""What the new version does with the inputs of runs that the expert corrected."""


def release(demo: Demo) -> str:
    """Deploy the old version, test the new one and deploy it, unless an earlier start did; tell what it fixed.

    :raises Failure: if the workers don't come to an end.
    """
    corrections = {run: _correction(demo, run) for run in _OBSERVED}
    if _running(demo) != _NEW:
        _deploy(demo, _OLD)
        results = [{"correctionId": row["id"]} | _OBSERVED[run] for run, row in corrections.items()]
        tested = {"projectId": PROJECT, "subject": _SUBJECT | {"version": _NEW}, "results": results}
        test_run = accepted(demo.admin.send("POST", "/v1/test-runs", json=tested)).json()
        _deploy(demo, _NEW)
        _wait_until_fixed(demo, test_run["counts"]["right"])
    return "\n".join(_told(demo))


def _correction(demo: Demo, run_id: str) -> dict[str, Any]:
    found: dict[str, Any] = demo.people["tomas"].get("/v1/corrections", runId=run_id, madeBy="me")["data"][0]
    return found


def _running(demo: Demo) -> str | None:
    rows = demo.admin.get(f"/v1/projects/{PROJECT}/running")
    return next((row["version"] for row in rows if row["subject"] == _SUBJECT), None)


def _deploy(demo: Demo, version: str) -> None:
    accepted(demo.admin.send("POST", "/v1/deploys", json={"subject": _SUBJECT, "version": version}))


def _wait_until_fixed(demo: Demo, count: int) -> None:
    deadline = time.monotonic() + _WAIT_SECONDS
    while sum(_correction(demo, run)["status"] == "fixed" for run in _OBSERVED) < count:
        if time.monotonic() > deadline:
            raise Failure("The deploy wasn't applied in a minute: `corrigenda doctor` looks for the reason.")
        time.sleep(0.2)


def _told(demo: Demo) -> Iterator[str]:
    yield f"Then support {_NEW} was tested on three of them, its calls graded, and deployed:"
    for run in _OBSERVED:
        row = _correction(demo, run)
        fixed = row.get("fixedIn")
        why = f"fixed in {fixed['version']}" if fixed else f"still {row['status']}: {_NEW} gets it wrong, too"
        yield f"  {run}  {why}"

"""Tells what became of the demo's corrections, in words and in commands to go on with."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

from app.demo.load import OWNER, PROJECT, Demo
from app.failure import Failure

_SAMPLE = {"run": "s-1011", "by": "tomas"}
"""The correction that is told of: an expert's, in the middle of a conversation."""

_WAIT_SECONDS = 60.0
_WAITING = frozenset({"open", "with-owner"})
_MEANING = {
    ("with-owner", "owner"): "the decisions were wrong: the agent's owner decides",
    ("open", "improve"): "the answer was wrong: an Improve job works on it",
    ("open", "none"): "an end user's word, not sorted yet",
    ("fixed", "none"): "nothing was wrong: recorded as right",
    ("fixed", "owner"): "a later version gets it right",
}


def account(demo: Demo) -> str:
    """Wait for the workers, then tell.

    :raises Failure: if they don't come to an end.
    """
    sample = _sample(demo)
    _wait_for_workers(demo, sample["id"])
    return "\n".join([*_counts(demo), "", *_one(demo, sample["id"])])


def commands(demo: Demo, token: str) -> str:
    """What to try next. ``token`` is how a shell gets at the admin's token."""
    return "\n".join(_commands(demo.admin.url, token, _sample(demo)["id"]))


def _sample(demo: Demo) -> dict[str, Any]:
    found: list[dict[str, Any]] = demo.people[_SAMPLE["by"]].get("/v1/corrections", runId=_SAMPLE["run"], madeBy="me")[
        "data"
    ]
    return found[0]


def _wait_for_workers(demo: Demo, sample_id: str) -> None:
    """Until the queues hold what waits, and the sample has its context and is in its owner's inbox."""
    deadline = time.monotonic() + _WAIT_SECONDS
    while not (_routed(demo) and _captured(demo, sample_id) and _notice(demo, sample_id)):
        if time.monotonic() > deadline:
            raise Failure("The workers haven't done their part in a minute: `corrigenda doctor` looks for the reason.")
        time.sleep(0.2)


def _routed(demo: Demo) -> bool:
    groups = [group for group in _groups(demo) if group["status"] in _WAITING and group["sortedTo"] != "none"]
    queues = demo.admin.get("/v1/work/stats")["queues"].values()
    routed = sum(queue[state] for queue in queues for state in ("ready", "leased", "parked"))
    return bool(routed >= sum(group["count"] for group in groups))


def _captured(demo: Demo, correction_id: str) -> bool:
    return "context" in demo.admin.get(f"/v1/corrections/{correction_id}")["run"]


def _notice(demo: Demo, correction_id: str) -> dict[str, Any] | None:
    inbox = demo.people[OWNER].get("/v1/notifications", limit=100)["data"]
    return next((row for row in inbox if row["data"].get("correctionId") == correction_id), None)


def _groups(demo: Demo) -> list[dict[str, Any]]:
    scope = {"scopeKind": "project", "scopeId": PROJECT}
    found: list[dict[str, Any]] = demo.admin.get("/v1/corrections/stats", groupBy="status,sortedTo", **scope)["groups"]
    return found


def _counts(demo: Demo) -> Iterator[str]:
    groups = _groups(demo)
    yield f"{sum(group['count'] for group in groups)} corrections of {PROJECT}'s runs:"
    for group in sorted(groups, key=lambda group: -group["count"]):
        status, sorted_to = group["status"], group["sortedTo"]
        where = f"{status}, {sorted_to}" if sorted_to != "none" else status
        yield f"  {group['count']:3}  {where:18} {_MEANING.get((status, sorted_to), '')}".rstrip()


def _one(demo: Demo, correction_id: str) -> Iterator[str]:
    shown = demo.admin.get(f"/v1/corrections/{correction_id}")
    subject, context = shown["subject"], shown["run"]["context"]
    should = shown["shouldCall"][0]
    yield f"One of them, {correction_id}:"
    yield f"  said     by expert {shown['madeBy']['id']} of run {shown['runId']} ({subject['id']} {subject['version']})"
    yield f'           decisions wrong: "{shown["why"]}"'
    yield f"           should have called {should['tool']} {json.dumps(should['args'])}"
    yield f"  copy     input and output as they came, and for a replay: {_told(context)}"
    yield f"  queue    {_queue(demo, correction_id)}"
    notice = _notice(demo, correction_id)
    yield f"  inbox    of {OWNER}, who owns {subject['id']}: {notice['type'] if notice else 'nothing'}"


def _told(context: dict[str, Any]) -> str:
    parts = [f"{name} ({len(value)})" for name, value in context.items() if isinstance(value, list)]
    return ", ".join(parts) or "nothing"


def _queue(demo: Demo, correction_id: str) -> str:
    for state in ("ready", "leased"):
        for row in demo.admin.get("/v1/work", state=state, projectId=PROJECT, limit=100)["data"]:
            if row["correctionId"] == correction_id:
                return f"{row['queue']}, {row['state']} since {row['readySince']}"
    return "none: it doesn't wait any more"


def _commands(url: str, token: str, correction_id: str) -> Iterator[str]:
    curl = 'curl -s -H "Authorization: Bearer $TOKEN"'
    body = json.dumps({"runId": "g-3004", "answer": "wrong", "shouldSay": "Two pairs: Holt Vegan and Dune Vegan."})
    yield "Go on with:"
    yield f"  TOKEN={token}"
    yield f"  {curl} '{url}/v1/corrections?status=with-owner&limit=2'"
    yield f"  {curl} {url}/v1/corrections/{correction_id}"
    yield f"  {curl} {url}/v1/corrections/{correction_id}/history"
    yield f"  {curl} '{url}/v1/work?queue=owner&state=ready'"
    yield f"  {curl} -H 'Content-Type: application/json' {url}/v1/corrections -d '{body}'"
    yield f"  {url}/docs shows every operation, to read and to try."

"""Puts the demo's data set into a running service, over HTTP as its users would. Doing it again changes nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from importlib.resources import files
from pathlib import Path
from typing import Any, Self

from app.data_folder import write_private
from app.failure import Failure
from app.remote import Remote, accepted

PROJECT = "shop"
OWNER = "ines"
_OWNERS = {
    "agents": {"support": OWNER, "gear-finder": OWNER, "policy-reader": "marco", "refund-writer": "marco"},
    "flows": {"refund-review": "marco"},
}
_GRANTS = [{"scopeKind": "project", "scopeId": PROJECT, "permission": "write"}]
_PEOPLE: dict[str, dict[str, Any]] = {
    "ines": {"principal": {"kind": "user", "id": "ines"}},
    "marco": {"principal": {"kind": "user", "id": "marco"}},
    "tomas": {"principal": {"kind": "user", "id": "tomas"}, "reviewerRole": "senior"},
    "shop-app": {},
}
_EXPERTS = {
    "name": "Support experts",
    "weight": 3,
    "description": "Senior colleagues who review the agents' chats.",
    "scope": {"kind": "project", "projectId": PROJECT},
    "assertableBy": {"minReviewerRole": "senior", "principalKinds": ["user"]},
}


class Demo:
    """The data set in the service that ``admin`` reaches. ``tokens`` is a file for the tokens of its people.

    Use as a context, so that connections are closed.
    """

    def __init__(self, admin: Remote, tokens: Path) -> None:
        self.admin = admin
        self._tokens = tokens
        self._stack = ExitStack()
        self._had: dict[tuple[str, str], bool] = {}
        self.people: dict[str, Remote] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def load(self) -> int:
        """Everything, in order. Gives the number of corrections that were recorded now."""
        self._project()
        self._meet()
        self._runs()
        group = self._experts()
        return sum(self._record(line, group) for line in _lines("corrections.jsonl"))

    def _project(self) -> None:
        self._send("PUT", f"/v1/projects/{PROJECT}", {"name": "Fjord & Field, customer service"})
        for kind, owners in _OWNERS.items():
            for subject, owner in owners.items():
                self._send("PUT", f"/v1/{kind}/{subject}", {"owners": [{"kind": "user", "id": owner}]})

    def _meet(self) -> None:
        """A token for each of the people: those of an earlier start, as far as they are good."""
        known: dict[str, str] = json.loads(self._tokens.read_text("utf-8")) if self._tokens.exists() else {}
        for name, more in _PEOPLE.items():
            if name not in known or not self._good(known[name]):
                wanted = {"name": f"demo: {name}", "role": "member", "grants": _GRANTS} | more
                known[name] = self._send("POST", "/v1/tokens", wanted)["token"]
            self.people[name] = self._stack.enter_context(Remote(self.admin.url, known[name]))
        write_private(self._tokens, json.dumps(known, indent=2))

    def _good(self, token: str) -> bool:
        try:
            with Remote(self.admin.url, token) as remote:
                return bool(remote.get("/v1/me"))
        except Failure:
            return False

    def _runs(self) -> None:
        body = (files("app.demo") / "runs.jsonl").read_bytes()
        headers = {"Content-Type": "application/x-ndjson"}
        answer = accepted(self.admin.send("POST", "/v1/runs/import", content=body, headers=headers))
        for row in map(json.loads, answer.text.splitlines()):
            if row.get("result") == "error":
                raise Failure(f"run {row.get('id')} of the demo: {row['error']['message']}")

    def _experts(self) -> str:
        groups = self.admin.get("/v1/corrector-groups", projectId=PROJECT, scopeKind="project")["data"]
        for group in groups:
            if group["name"] == _EXPERTS["name"]:
                return str(group["id"])
        return str(self._send("POST", "/v1/corrector-groups", _EXPERTS)["id"])

    def _record(self, line: dict[str, Any], group: str) -> int:
        """Record one, unless an earlier start did."""
        body, person = line["body"], self.people[line["by"]]
        whose = (line["by"], body["runId"])
        if whose not in self._had:
            self._had[whose] = bool(person.get("/v1/corrections", runId=body["runId"], madeBy="me")["data"])
        if self._had[whose]:
            return 0
        if line["expert"]:
            body = body | {"correctorGroupId": group}
        accepted(person.send("POST", "/v1/corrections", json=body))
        return 1

    def _send(self, method: str, path: str, body: dict[str, Any]) -> Any:
        return accepted(self.admin.send(method, path, json=body)).json()


def _lines(name: str) -> Iterator[dict[str, Any]]:
    return map(json.loads, (files("app.demo") / name).read_text("utf-8").splitlines())

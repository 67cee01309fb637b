"""A project's deploys, pins, unpins and test runs through the API, and workers that apply them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Engine

from app.domain.model import Subject
from app.services.apply import step
from app.transaction import transaction
from tests.client import Client
from tests.factories import a_run

SUPPORT = {"kind": "agent", "id": "support"}
WRONG_ANSWER = {"answer": "wrong", "why": "no"}
WRONG_DECISIONS = {"decisions": "wrong", "mustNotCall": ["refund"]}
RIGHT = {"answer": "right"}


def apply_all(engine: Engine, tenant: str, project: str = "p", subject: str = "support", kind: Any = "agent") -> int:
    """Apply all events of a subject, as one worker does; in how many steps."""
    steps, more = 0, True
    while more:
        with transaction(engine) as tx:
            more = step(tx, tenant, project, Subject(kind, subject))
        steps += 1
    return steps


@dataclass
class Project:
    """Project ``p`` and its agent ``support`` as ``client`` sees them. ``work`` lets the workers catch up."""

    client: Client
    engine: Engine
    id: str = "p"
    subject: dict[str, str] = field(default_factory=lambda: SUPPORT)

    def correct(self, said: dict[str, Any] = WRONG_ANSWER, version: str = "1.0.0", **more: Any) -> str:
        """Record a correction of a new run of ``version``; its id."""
        run = a_run(
            self.engine, self.client.caller.tenant_id, project_id=self.id, subject_kind=self.subject["kind"],
            subject_id=self.subject["id"], subject_version=version,
        )  # fmt: skip
        return str(self._sent("/v1/corrections", {"runId": run} | said | more, 201)["id"])

    def deploy(self, version: str, **more: Any) -> Any:
        return self._sent("/v1/deploys", {"subject": self.subject, "version": version} | more)

    def pin(self, version: str, **more: Any) -> Any:
        return self._sent(f"/v1/projects/{self.id}/pins", {"subject": self.subject, "version": version} | more)

    def unpin(self) -> Any:
        return self._sent(f"/v1/projects/{self.id}/unpins", {"subject": self.subject})

    def test(self, version: str, verdicts: dict[str, str], **more: Any) -> str:
        """Report a test run of ``version`` with ``{correction: verdict}``; its id."""
        results = [{"correctionId": one, "verdict": verdict} for one, verdict in verdicts.items()]
        body = {"projectId": self.id, "subject": self.subject | {"version": version}, "results": results} | more
        return str(self._sent("/v1/test-runs", body)["id"])

    def change(self, correction: str, **body: Any) -> Any:
        answer = self.client.patch(f"/v1/corrections/{correction}", body)
        assert answer.status_code == 200, answer.text
        return answer.json

    def work(self) -> None:
        apply_all(self.engine, self.client.caller.tenant_id, self.id, self.subject["id"], self.subject["kind"])

    def of(self, correction: str) -> dict[str, Any]:
        """The correction as it stands: what events and hands may change of it."""
        shown = self.client.get(f"/v1/corrections/{correction}").json
        names = ("status", "sortedTo", "sorted", "fixedIn", "reopenedIn")
        return {name: shown[name] for name in names if name in shown}

    def status(self, correction: str) -> str:
        return str(self.of(correction)["status"])

    def history(self, correction: str) -> list[dict[str, Any]]:
        rows = self.client.get(f"/v1/corrections/{correction}/history").json["data"]
        return [{name: value for name, value in row.items() if name != "at"} for row in rows]

    def counts(self, test_run: str) -> dict[str, Any]:
        shown = self.client.get(f"/v1/test-runs/{test_run}").json
        return {"status": shown["status"]} | {name: count for name, count in shown["counts"].items() if count}

    def _sent(self, path: str, body: dict[str, Any], status: int = 202) -> Any:
        answer = self.client.post(path, body)
        assert answer.status_code == status, answer.text
        return answer.json

"""``corrigenda test-set`` and ``test-run`` against a real service: a pipeline holds a release, or lets it go."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from sqlalchemy import Engine

from app.transaction import transaction
from tests.client import Client
from tests.factories import a_run
from tests.operation.test_commands import Run, address, command, one_line

__all__ = ["address", "command"]

CALLS = {"decisions": "wrong", "shouldCall": [{"tool": "refund", "args": {"order": 10**20}}]}
ANSWER = {"answer": "wrong", "shouldSay": "No."}
REFUND = {"calls": [{"tool": "refund", "args": {"order": 10**20, "note": "x"}}]}


@pytest.fixture
def runs(admin: Client, engine: Engine, tenant: str) -> dict[str, str]:
    """Two corrected runs by what was wrong, with their corrections as ``calls:id`` and ``answer:id``."""
    found = {}
    for name, said in {"calls": CALLS, "answer": ANSWER}.items():
        found[name] = a_run(engine, tenant)
        answer = admin.post("/v1/corrections", {"runId": found[name], **said})
        found[f"{name}:id"] = answer.json["id"]
    return found


class Gate:
    """The command in a pipeline of an agent's team."""

    def __init__(self, command: Run, address: str, admin: Client, folder: Path) -> None:
        self._command, self._folder = command, folder
        self._service = ("--url", address, "--token", admin.secret or "")

    def report(self, *results: dict[str, Any], text: str | None = None, more: tuple[str, ...] = ()) -> Result:
        file = self._folder / "results.jsonl"
        file.write_text(text if text is not None else "".join(json.dumps(result) + "\n" for result in results))
        words = ("test-run", "report", str(file), "--project", "p", "--wait", "0", *self._service)
        return self._command(*words, "--version", "1.1.0", *(more or ("--agent", "support")))

    def export(self, *words: str) -> Result:
        return self._command("test-set", "export", *words, *self._service)


@pytest.fixture
def gate(command: Run, address: str, admin: Client, tmp_path: Path) -> Gate:
    return Gate(command, address, admin, tmp_path)


def fixed(engine: Engine, tenant: str, correction_id: str) -> None:
    with transaction(engine) as tx:
        tx.run(
            "UPDATE corrections SET status = 'fixed', fixed_how = 'latest', fixed_version = '1.0.1',"
            " fixed_at = clock_timestamp() WHERE tenant_id = %s AND id = %s",
            (tenant, correction_id),
        )


def test_a_test_set_goes_into_a_file(gate: Gate, runs: dict[str, str], tmp_path: Path) -> None:
    file = tmp_path / "cases.jsonl"
    assert gate.export("--output", str(file)).exit_code == 0
    assert {json.loads(line)["runId"] for line in file.read_text().splitlines()} == {runs["calls"], runs["answer"]}
    shown = gate.export("--format", "inspect", "--filter", "agentId=support", "--filter", "status=with-owner")
    assert [json.loads(line)["id"] for line in shown.stdout.splitlines()] == [runs["calls"]]
    assert "agentVersion" in one_line(gate.export("--filter", "agentVersion=1"))
    assert "NAME=VALUE" in one_line(gate.export("--filter", "agentId"))


def test_results_of_runs_are_told_of_their_corrections(gate: Gate, admin: Client, runs: dict[str, str]) -> None:
    done = gate.report(
        {"runId": runs["calls"], "observed": REFUND, "answerVerdict": "right"},
        {"runId": runs["answer"], "observed": REFUND, "answerVerdict": "wrong", "detail": {"said": "Yes."}},
        {"runId": "another", "verdict": "wrong"},
        more=("--agent", "support", "--source", "pipeline 7"),
    )
    assert done.exit_code == 0, done.output
    (shown,) = admin.get("/v1/test-runs").json["data"]
    assert shown["subject"] == {"kind": "agent", "id": "support", "version": "1.1.0"}
    assert (shown["source"], shown["projectId"]) == ("pipeline 7", "p")
    assert (shown["counts"]["right"], shown["counts"]["wrong"]) == (1, 1)
    assert "1 right, 1 wrong" in done.stdout


def test_what_stood_fixed_and_is_wrong_again_holds_the_release(
    gate: Gate, engine: Engine, tenant: str, runs: dict[str, str]
) -> None:
    wrong = {"runId": runs["calls"], "observed": {"calls": []}}
    assert gate.report(wrong).exit_code == 0
    assert gate.report(wrong, more=("--agent", "support", "--fail-on", "wrong")).exit_code == 3
    fixed(engine, tenant, runs["calls:id"])
    held = gate.report(wrong, {"runId": runs["answer"], "answerVerdict": "right"})
    assert held.exit_code == 3
    assert held.stderr == f"Wrong again: correction {runs['calls:id']} of run {runs['calls']}\n"
    assert gate.report(wrong, more=("--agent", "support", "--fail-on", "never")).exit_code == 0
    assert gate.report({"runId": runs["calls"], "observed": REFUND}).exit_code == 0
    assert gate.report({"correctionId": runs["calls:id"], "verdict": "wrong"}).exit_code == 3


def test_one_array_is_as_good_as_lines(gate: Gate, admin: Client, runs: dict[str, str]) -> None:
    text = json.dumps([{"runId": runs["calls"], "verdict": "right"}], indent=2)
    assert gate.report(text=text).exit_code == 0
    assert admin.get("/v1/test-runs").json["data"][0]["counts"]["right"] == 1


def test_what_cant_be_reported_is_one_line(gate: Gate, admin: Client, runs: dict[str, str]) -> None:
    right = {"runId": runs["calls"], "verdict": "right"}
    assert "Nothing in" in one_line(gate.report({"runId": "another", "verdict": "right"}))
    assert "Nothing in" in one_line(gate.report(right, more=("--flow", "support")))
    assert "Results 1 and 3 both judge" in one_line(
        gate.report(right, {"runId": "x", "verdict": "right"}, {"correctionId": runs["calls:id"], "verdict": "wrong"})
    )
    assert "Result 2 is not JSON" in one_line(gate.report(text=f"{json.dumps(right)}\n{{\n"))
    assert "Result 1 is not a JSON object" in one_line(gate.report(text="7\n"))
    assert "Result 1: " in one_line(gate.report({"verdict": "right"}))
    assert "bad-input" in one_line(gate.report(right | {"verdict": "maybe"}))
    assert "is no correction" in one_line(gate.report({"correctionId": "gone", "verdict": "right"}))
    assert gate.report(right, more=("--agent", "a", "--flow", "f")).exit_code == 2
    assert admin.get("/v1/test-runs").json["data"] == []

"""Runs the agent on every case of a test set: ``python run_cases.py VERSION < cases.jsonl > results.jsonl``."""

from __future__ import annotations

import json
import sys
from typing import Any

import agent


def result(version: str, case: dict[str, Any]) -> dict[str, Any]:
    """What ``corrigenda test-run report`` takes of one case: the calls that were made, and whether the answer is right.

    The service holds the calls against what the corrections ask for. Whether an answer is right is yours to say, by a
    grading model for instance; here it must be one of those that people asked for.
    """
    done = agent.run(version, case["input"]["message"])
    said: dict[str, Any] = {"runId": case["runId"], "observed": {"calls": done["toolCalls"]}}
    wanted = case["expected"].get("answer", {}).get("shouldSay")
    if wanted:
        said["answerVerdict"] = "right" if done["answer"] in wanted else "wrong"
    return said


if __name__ == "__main__":
    for line in sys.stdin:
        print(json.dumps(result(sys.argv[1], json.loads(line))))

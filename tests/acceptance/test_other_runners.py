"""Test sets loaded by the tools that they are for. Runs where those are installed; docs/test-sets.md says how.

``INSPECT_PYTHON``: a Python that has inspect-ai. ``PROMPTFOO``: the promptfoo program.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from app.domain import eval_shapes
from tests.domain.test_eval_shapes import CALLS, case

NASTY = "{{env.HOME}} {{range.constructor('return 1')()}} {% raw %} {# \u0000"
HISTORY = json.dumps({"history": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": NASTY}]})
CASES = [
    case({"answer": "wrong", "shouldSay": NASTY}, run_id="a", context=HISTORY),
    case({"answer": "right"} | CALLS, run_id="b", input=json.dumps(NASTY)),
    case(CALLS, run_id="c", input='"file:///etc/passwd"', output='{"n":1}'),
    case({"items": [{"key": "k", "verdict": "wrong"}]}, run_id="1", input='""', output='"\\ud800"'),
    case(
        {"answer": "wrong", "shouldSay": "A"},
        {"answer": "wrong", "shouldSay": "B"} | CALLS | {"shouldCall": [{"tool": "t", "args": {"$ref": "file:///x"}}]},
        run_id="e",
        input="null",
    ),
]


def program(name: str) -> str:
    found = os.environ.get(name, "")
    return found or pytest.skip(f"{name} is not set")


def run(command: list[str], **more: Any) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=180, **more)
    assert done.returncode in (0, 100), done.stdout + done.stderr
    return done.stdout


def test_inspect_loads_every_sample(tmp_path: Path) -> None:
    python = program("INSPECT_PYTHON")
    path = tmp_path / "set.jsonl"
    path.write_text("".join(f"{eval_shapes.inspect(one)}\n" for one in CASES), "utf-8")
    script = (
        "import sys; from inspect_ai.dataset import json_dataset\n"
        "for s in json_dataset(sys.argv[1]): print(s.model_dump_json())"
    )
    samples = [json.loads(line) for line in run([python, "-c", script, str(path)]).splitlines()]
    assert [sample["id"] for sample in samples] == ["a", "b", "c", "1", "e"]
    assert [message["content"] for message in samples[0]["input"]] == ["Hi", NASTY, "Where is my order?"]
    assert samples[4]["target"] == ["A", "B"]
    assert samples[1]["metadata"]["expected"]["decisions"]["mustNotCall"] == ["cancel"]


CALLED = {
    "right": {"toolCalls": [{"tool": "refund", "args": {"n": 10**30, "more": True}}]},
    "openai": json.dumps([{"type": "function", "function": {"name": "refund", "arguments": f'{{"n":{10**30}}}'}}]),
    "twice": {"toolCalls": [{"tool": "refund", "args": {"n": 10**30}}, {"tool": "cancel", "args": {}}]},
    "none": {"answer": "Sorry."},
    "other": {"toolCalls": [{"tool": "refund", "args": {"n": 1}}]},
}


def promptfoo(folder: Path, config: dict[str, Any]) -> list[dict[str, Any]]:
    (folder / "promptfooconfig.json").write_text(json.dumps(config), "utf-8")
    quiet = {"PROMPTFOO_DISABLE_TELEMETRY": "1", "PROMPTFOO_DISABLE_UPDATE": "1", "PROMPTFOO_CONFIG_DIR": str(folder)}
    environ = os.environ | quiet
    assert "Configuration is valid" in run(
        [program("PROMPTFOO"), "validate", "config", "-c", "promptfooconfig.json"], cwd=folder, env=environ
    )
    run(
        [program("PROMPTFOO"), "eval", "-c", "promptfooconfig.json", "--no-cache", "-o", "out.json"],
        cwd=folder,
        env=environ,
    )
    results: list[dict[str, Any]] = json.loads((folder / "out.json").read_text())["results"]["results"]
    return results


def test_promptfoo_runs_every_test_and_nothing_that_people_wrote(tmp_path: Path) -> None:
    program("PROMPTFOO")
    tests = [json.loads(eval_shapes.promptfoo(one)) for one in CASES]
    for test in tests:
        test["assert"] = [one for one in test["assert"] if one["type"] == "javascript"]
    (tmp_path / "set.json").write_text(json.dumps(tests), "utf-8")
    results = promptfoo(tmp_path, {"prompts": ["{{input}}"], "providers": ["echo"], "tests": "file://set.json"})
    prompts = {
        result["vars"]["expected"] + result["testCase"]["description"]: result["prompt"]["raw"] for result in results
    }
    seen = {key.rpartition("run ")[2]: raw for key, raw in prompts.items()}
    assert set(seen) == {"a", "b", "c", "1", "e"}
    assert seen["b"] == NASTY.replace("{{", "{ {").replace("{%", "{ %").replace("{#", "{ #")
    assert seen["c"].strip() == "file:///etc/passwd"


def test_promptfoo_grades_calls_as_we_do(tmp_path: Path) -> None:
    program("PROMPTFOO")
    shaped = json.loads(eval_shapes.promptfoo(case(CALLS)))
    tests = [shaped | {"description": name, "providerOutput": output} for name, output in CALLED.items()]
    results = promptfoo(tmp_path, {"prompts": ["{{input}}"], "providers": ["echo"], "tests": tests})
    passed = {result["testCase"]["description"]: result["success"] for result in results}
    assert passed == {"right": True, "openai": True, "twice": False, "none": False, "other": False}

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain import eval_shapes, json_text
from app.domain.cases import Case
from app.domain.model import Subject
from app.domain.weighing import Weighed

CALLS = {"decisions": "wrong", "shouldCall": [{"tool": "refund", "args": {"n": 10**30}}], "mustNotCall": ["cancel"]}
SHAPES = (eval_shapes.openai_evals, eval_shapes.inspect, eval_shapes.promptfoo)


def case(*corrections: dict[str, Any], **over: Any) -> Case:
    """A case whose corrections have the ids c0, c1, …"""
    texts = [json.dumps({"id": f"c{index}"} | said) for index, said in enumerate(corrections)]
    parts: dict[str, Any] = {
        "run_id": "run-1",
        "project_id": "p",
        "subject": Subject("agent", "support", "1.0.0"),
        "input": '{"message":"Where is my order?"}',
        "context": None,
        "output": '{"answer":"On its way.","toolCalls":[]}',
        "segments": '[{"key":"company","value":"acme"}]',
        "captured_at": datetime(2026, 1, 1, tzinfo=UTC),
        "corrections": tuple(Weighed(json_text.parse(text)) for text in texts),
        "shown": tuple(texts),
    }
    return Case(**parts | over)


def shaped(shape: Callable[[Case], str], *corrections: dict[str, Any], **over: Any) -> dict[str, Any]:
    line = shape(case(*corrections, **over))
    assert "\n" not in line
    line.encode()
    value: dict[str, Any] = json.loads(line)
    return value


def test_an_openai_sample_has_a_chat_and_an_ideal() -> None:
    assert shaped(eval_shapes.openai_evals, {"answer": "wrong", "shouldSay": "It is lost."}) == {
        "input": [{"role": "user", "content": "Where is my order?"}],
        "ideal": "It is lost.",
        "metadata": {
            "runId": "run-1",
            "projectId": "p",
            "subject": {"kind": "agent", "id": "support", "version": "1.0.0"},
            "segments": [{"key": "company", "value": "acme"}],
            "correctionIds": ["c0"],
            "expected": {
                "answer": {"verdict": "wrong", "weightRight": 0, "weightWrong": 1, "shouldSay": ["It is lost."]}
            },
        },
    }


def test_an_inspect_sample_has_a_text_or_a_chat_and_a_target() -> None:
    sample = shaped(eval_shapes.inspect, {"answer": "right"})
    assert (sample["id"], sample["input"], sample["target"]) == ("run-1", "Where is my order?", "On its way.")
    history = [
        {"role": "user", "content": "Hi"},
        {"role": "tool", "content": "{}"},
        {"role": "assistant", "content": ""},
    ]
    sample = shaped(eval_shapes.inspect, {"answer": "right"}, context=json.dumps({"history": history}))
    assert sample["input"] == [history[0], {"role": "user", "content": "Where is my order?"}]


@pytest.mark.parametrize(
    ("corrections", "ideal"),
    [
        ([{"answer": "wrong", "shouldSay": "A"}, {"answer": "wrong", "shouldSay": "B"}], ["A", "B"]),
        ([{"answer": "right"}, CALLS], "On its way."),
        ([{"answer": "right"}, {"answer": "wrong", "shouldSay": "A"}], None),
        ([{"answer": "wrong", "why": "rude"}], None),
        ([CALLS], None),
        ([{"items": [{"key": "a", "verdict": "wrong"}]}], None),
    ],
)
def test_where_nobody_knows_the_answer_all_that_is_expected_is_the_ideal(
    corrections: list[dict[str, Any]], ideal: Any
) -> None:
    expected = json_text.dump(case(*corrections).expected) if ideal is None else ideal
    assert shaped(eval_shapes.openai_evals, *corrections)["ideal"] == expected
    assert shaped(eval_shapes.inspect, *corrections)["target"] == expected
    assert ("ideal" in shaped(eval_shapes.promptfoo, *corrections)["vars"]) is (ideal is not None)


@pytest.mark.parametrize(
    ("given_input", "text"),
    [
        ('"Hello"', "Hello"),
        ('{"question":"What?","n":1}', "What?"),
        ('{"n":1.0,"big":123456789012345678901}', '{"n":1.0,"big":123456789012345678901}'),
        ('"  "', '"  "'),
        ('""', '""'),
        ("null", "null"),
        ("[]", "[]"),
        ('{"message":""}', '{"message":""}'),
        ('{"messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":"Yes?"}]}', "Yes?"),
    ],
)
def test_the_turn_is_what_a_person_would_read(given_input: str, text: str) -> None:
    chat = shaped(eval_shapes.openai_evals, {"answer": "right"}, input=given_input)["input"]
    assert chat[-1]["content"] == text
    assert shaped(eval_shapes.promptfoo, {"answer": "right"}, input=given_input)["vars"]["input"] == text


def test_a_promptfoo_test_asserts_the_calls_and_the_answer() -> None:
    found = shaped(eval_shapes.promptfoo, CALLS | {"answer": "wrong", "shouldSay": "Sorry."})
    assert json.loads(found["vars"]["expected"]) == case(CALLS | {"answer": "wrong", "shouldSay": "Sorry."}).expected
    assert found["vars"]["ideal"] == "Sorry."
    assert found["assert"] == [
        {"type": "javascript", "value": eval_shapes.CALLS_AS_EXPECTED},
        {"type": "llm-rubric", "value": "Says in substance this: {{ideal}}"},
    ]
    assert found["metadata"] == {"runId": "run-1", "correctionIds": ["c0"]}
    assert shaped(eval_shapes.promptfoo, {"decisions": "right"})["assert"] == []


@given(
    st.text(st.sampled_from('{%#}a \\"\n'), max_size=12) | st.sampled_from(["file:///etc/passwd", "package:x:y"]),
    st.text(st.sampled_from('{%#}a \\"\n'), max_size=12),
)
def test_nothing_that_people_wrote_is_a_template_or_a_file_to_promptfoo(written: str, said: str) -> None:
    correction = {"answer": "wrong", "shouldSay": said + "x"} | CALLS | {"mustNotCall": [written + "y"]}
    history = json.dumps({"history": [{"role": "user", "content": written}]})
    found = shaped(eval_shapes.promptfoo, correction, input=json.dumps(written), context=history)
    for text in found["vars"].values():
        assert not text.startswith(("file://", "package:"))
        assert not any(start in text for start in ("{{", "{%", "{#"))
    assert json.loads(found["vars"]["expected"]) == case(correction).expected
    rest = found | {"vars": {}, "assert": []}
    assert written not in json.dumps(rest) or len(written) < 3


@pytest.mark.parametrize("shape", SHAPES)
def test_half_a_surrogate_pair_doesnt_break_a_line(shape: Callable[[Case], str]) -> None:
    found = shaped(shape, {"answer": "right"}, input='"\\ud800 \\u0000"', output='"\\udc00"')
    assert "\ufffd" in json.dumps(found, ensure_ascii=False)

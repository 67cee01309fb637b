"""Cases in the shapes that other test runners read: openai-evals, promptfoo, inspect.

These runners want one text in and one text out, where runs have JSON. What a person would read is taken: a text as it
is, of an object the member that such objects keep it in, else the JSON itself. All that was expected travels along.
"""

from __future__ import annotations

import re
from typing import Any, TypeGuard

from app.domain import json_text
from app.domain.cases import Case, subject_of

_GIVEN = ("message", "text", "prompt", "question", "query", "input", "content")
_SAID = ("answer", "message", "text", "output", "content")
_ROLES = ("system", "user", "assistant")
_LONE = re.compile("[\ud800-\udfff]")
_TEMPLATE = re.compile(r"\{(?=[{%#])")
_LOADED = ("file://", "package:")


def openai_evals(case: Case) -> str:
    """One line of a ``samples.jsonl``: the chat, and what would be ideal."""
    return _line({"input": _chat(case), "ideal": _ideal(case), "metadata": _metadata(case)})


def inspect(case: Case) -> str:
    """One ``Sample`` as Inspect's ``json_dataset`` reads it; the input is a text when nothing came before it."""
    chat = _chat(case)
    given = chat if len(chat) > 1 else chat[0]["content"]
    return _line({"id": case.run_id, "input": given, "target": _ideal(case), "metadata": _metadata(case)})


def promptfoo(case: Case) -> str:
    """One test case of promptfoo.

    promptfoo loads what starts with ``file://`` and runs what stands in ``{{ }}``, wherever it finds it: text that
    people wrote must do neither. So it stands in ``vars`` alone, disarmed, and assertions only refer to it.
    """
    chat = _chat(case)
    ideal = _ideal_answer(case)
    variables = {
        "input": _disarmed(chat[-1]["content"]),
        "history": _disarmed_json(chat[:-1]),
        "expected": _disarmed_json(case.expected),
    }
    if ideal is not None:
        variables["ideal"] = _disarmed(ideal) if isinstance(ideal, str) else _disarmed_json(ideal)
    return _line(
        {
            "description": f"run {case.run_id}",
            "vars": variables,
            "assert": _assertions(case, ideal),
            "metadata": {"runId": case.run_id, "correctionIds": _correction_ids(case)},
        }
    )


def _metadata(case: Case) -> dict[str, Any]:
    return {
        "runId": case.run_id,
        "projectId": case.project_id,
        "subject": subject_of(case),
        "segments": json_text.parse(case.segments),
        "correctionIds": _correction_ids(case),
        "expected": case.expected,
    }


def _correction_ids(case: Case) -> list[str]:
    return [correction.says["id"] for correction in case.corrections]


def _chat(case: Case) -> list[dict[str, str]]:
    """The conversation up to the run's turn, which is its last message."""
    before = json_text.parse(case.context).get("history") if case.context else None
    given = json_text.parse(case.input)
    turn = _messages(given.get("messages") if isinstance(given, dict) else given)
    return _messages(before) + (turn or [{"role": "user", "content": _text(given, _GIVEN)}])


def _messages(value: Any) -> list[dict[str, str]]:
    """The chat messages in ``value`` that are text; tools' messages are no part of the shapes."""
    if not isinstance(value, list):
        return []
    spoken = [m for m in value if isinstance(m, dict) and m.get("role") in _ROLES and _readable(m.get("content"))]
    return [{"role": message["role"], "content": message["content"]} for message in spoken]


def _text(value: Any, members: tuple[str, ...]) -> str:
    inside = [value.get(name) for name in members] if isinstance(value, dict) else [value]
    return next((text for text in inside if _readable(text)), None) or json_text.dump(value)


def _readable(value: Any) -> TypeGuard[str]:
    return isinstance(value, str) and value.strip() != ""


def _ideal(case: Case) -> str | list[str]:
    """What the answer should be; where nobody knows, all that is expected, as JSON for a grading model."""
    ideal = _ideal_answer(case)
    return json_text.dump(case.expected) if ideal is None else ideal


def _ideal_answer(case: Case) -> str | list[str] | None:
    answer = case.expected.get("answer", {})
    if answer.get("verdict") == "right":
        return _text(json_text.parse(case.output), _SAID)
    if answer.get("verdict") == "wrong" and answer["shouldSay"]:
        said: list[str] = answer["shouldSay"]
        return said if len(said) > 1 else said[0]
    return None


def _assertions(case: Case, ideal: str | list[str] | None) -> list[dict[str, str]]:
    asserted = []
    if case.expected.get("decisions", {}).get("verdict") == "wrong":
        asserted.append({"type": "javascript", "value": CALLS_AS_EXPECTED})
    if ideal is not None:
        one = "this" if isinstance(ideal, str) else "one of these"
        asserted.append({"type": "llm-rubric", "value": f"Says in substance {one}: {{{{ideal}}}}"})
    return asserted


CALLS_AS_EXPECTED = """\
const wanted = JSON.parse(context.vars.expected).decisions;
const read = (text) => { try { return JSON.parse(text); } catch { return text; } };
const said = typeof output === 'string' ? read(output) : output;
const calls = [said?.toolCalls ?? said?.tool_calls ?? said].flat().filter((c) => c && typeof c === 'object')
  .map((c) => ({ tool: c.tool ?? c.name ?? c.function?.name, args: c.args ?? c.arguments ?? c.function?.arguments }))
  .map((c) => ({ tool: c.tool, args: (typeof c.args === 'string' ? read(c.args) : c.args) ?? {} }));
const same = (a, b) => a === b || (typeof a === 'object' && typeof b === 'object' && a !== null && b !== null
  && Array.isArray(a) === Array.isArray(b) && Object.keys(a).length === Object.keys(b).length
  && Object.keys(a).every((k) => Object.hasOwn(b, k) && same(a[k], b[k])));
const fits = (w, c) => w.tool === c.tool
  && Object.keys(w.args).every((k) => Object.hasOwn(c.args, k) && same(w.args[k], c.args[k]));
const owner = new Map();
const place = (w, seen) => calls.some((c, i) => fits(w, c) && !seen.has(i) && seen.add(i)
  && (!owner.has(i) || place(owner.get(i), seen)) && owner.set(i, w));
const missing = wanted.shouldCall.filter((w) => !place(w, new Set())).map((w) => w.tool);
const banned = calls.map((c) => c.tool).filter((tool) => wanted.mustNotCall.includes(tool));
const pass = missing.length + banned.length === 0;
return { pass, score: pass ? 1 : 0, reason: 'not called: ' + missing + '; must not be called: ' + banned };
"""
"""Grades the provider's calls as the service does: each expected call has one of its own, no forbidden tool is called.

Calls are looked for in ``toolCalls`` or ``tool_calls`` of the output, or in the output itself when it is a list.
"""


def _disarmed(text: str) -> str:
    text = _TEMPLATE.sub("{ ", text)
    return f" {text}" if text.startswith(_LOADED) else text


def _disarmed_json(value: Any) -> str:
    """JSON in which no template starts; it is still the same value."""
    return _TEMPLATE.sub(r"\\u007b", json_text.dump(value))


def _line(value: dict[str, Any]) -> str:
    """One line of JSON. Half a surrogate pair, which kept JSON may hold and UTF-8 may not, becomes U+FFFD."""
    return _LONE.sub("\ufffd", json_text.dump(value))

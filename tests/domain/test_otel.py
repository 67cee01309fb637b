"""What spans come to: each convention's names, the order of calls, and that arrival doesn't matter."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain import otel
from app.domain.model import RunContent, Subject
from app.domain.otel import Event, Span, reduced
from app.domain.otel_folding import fold

TRACE = "5b8efff798038103d269b633813fc60c"
SECOND = 1_000_000_000
START = 1_796_040_000 * SECOND


def span(id: str, parent: str | None = None, at: int = 0, took: int = 1, **more: Any) -> Span:
    """A span ``at`` seconds after the trace's start. Attributes by ``attributes=``."""
    start = START + at * SECOND
    return reduced(Span(TRACE, id, parent, more.pop("name", id), start, start + took * SECOND, **more))


def genai(operation: str, **attributes: Any) -> dict[str, Any]:
    named = {f"gen_ai.{name.replace('__', '.')}": value for name, value in attributes.items()}
    return {"gen_ai.operation.name": operation} | named


def made(*spans: Span) -> RunContent:
    run = fold(spans, "p").run
    assert run is not None
    return run


def payload(text: str | None) -> Any:
    return None if text is None else json.loads(text)


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "parts": [{"type": "text", "content": text}]}


def assistant(*parts: dict[str, Any]) -> dict[str, Any]:
    return {"role": "assistant", "parts": [*parts], "finish_reason": "stop"}


ASKED = {"type": "tool_call", "id": "c1", "name": "get_weather", "arguments": {"city": "Paris"}}
SAID = {"type": "text", "content": "Rainy."}

AGENT = span(
    "a", took=9, version="2.0",
    attributes=genai(
        "invoke_agent", agent__id="ag-1", agent__name="Weather", agent__version="1.4", conversation__id="chat-1",
        system_instructions=json.dumps([{"type": "text", "content": "Be brief."}]),
        input__messages=json.dumps([user("Weather?")]), output__messages=json.dumps([assistant(SAID)]),
    ),
)  # fmt: skip
CHAT = span("c1", "a", 1, attributes=genai(
    "chat", input__messages=json.dumps([user("Weather?")]), output__messages=json.dumps([assistant(ASKED)]),
))  # fmt: skip
TOOL = span("t", "a", 3, attributes=genai(
    "execute_tool", tool__name="get_weather", tool__call__id="c1",
    tool__call__arguments='{"city": "Paris", "n": 1.0}', tool__call__result='{"sky": "rain"}',
))  # fmt: skip
FOUND = span("r", "a", 2, attributes=genai(
    "retrieval", retrieval__documents=json.dumps([{"id": "d1", "score": 0.5}]),
))  # fmt: skip


def test_an_agents_spans_by_the_genai_conventions() -> None:
    run = made(AGENT, CHAT, TOOL, FOUND)
    assert run.subject == Subject("agent", "ag-1", "1.4")
    assert (run.status, run.conversation_id, run.project_id) == ("completed", "chat-1", "p")
    assert payload(run.input) == [user("Weather?")]
    assert payload(run.output) == [assistant(SAID)]
    system = {"role": "system", "parts": [{"type": "text", "content": "Be brief."}]}
    assert payload(run.messages) == [system, user("Weather?"), assistant(SAID)]
    assert run.calls == '[{"toolId":"get_weather","arguments":{"city":"Paris","n":1.0},"result":{"sky":"rain"}}]'
    assert payload(run.retrieved) == [{"id": "d1", "score": 0.5}]
    assert run.started_at is not None
    assert run.finished_at is not None
    assert (run.finished_at - run.started_at).total_seconds() == 9


def test_the_version_is_the_agents_else_the_services_else_none() -> None:
    named = genai("invoke_agent", agent__name="x")
    assert made(span("a", version="7", attributes=named)).subject == Subject("agent", "x", "7")
    assert made(span("a", attributes=named)).subject == Subject("agent", "x", "unversioned")


@pytest.mark.parametrize(
    ("name", "attributes", "kind", "id"),
    [
        ("invoke_agent Helper", {}, "agent", "Helper"),
        ("Helper", {}, "agent", "Helper"),
        ("x", {"gen_ai.operation.name": "invoke_workflow", "gen_ai.workflow.name": "t"}, "flow", "t"),
        ("x", {"gen_ai.operation.name": "invoke_workflow", "gen_ai.agent.name": "triage"}, "flow", "triage"),
        ("", {}, "agent", "unnamed"),
        ("x", {"gen_ai.agent.name": "n\0ul" + "x" * 300}, "agent", "nul" + "x" * 253),
    ],
)  # fmt: skip
def test_who_ran(name: str, attributes: dict[str, Any], kind: str, id: str) -> None:
    run = made(span("a", name=name, attributes=genai("invoke_agent") | attributes))
    assert (run.subject.kind, run.subject.id) == (kind, id)


def test_openinference_spans() -> None:
    root = span("a", attributes={
        "openinference.span.kind": "AGENT", "agent.name": "support", "session.id": "s-1",
        "input.value": '{"message": "hi"}', "input.mime_type": "application/json",
        "output.value": '{"a": 1}', "output.mime_type": "text/plain",
    }, took=9)  # fmt: skip
    model = span("m", "a", 1, attributes={
        "openinference.span.kind": "LLM",
        "llm.input_messages.0.message.role": "user", "llm.input_messages.0.message.content": "hi",
        "llm.output_messages.0.message.role": "assistant",
        "llm.output_messages.0.message.tool_calls.0.tool_call.id": "c9",
        "llm.output_messages.0.message.tool_calls.0.tool_call.function.name": "lookup",
        "llm.output_messages.0.message.tool_calls.0.tool_call.function.arguments": '{"q": 7}',
    })  # fmt: skip
    tool = span("t", "a", 3, attributes={
        "openinference.span.kind": "TOOL", "tool.name": "lookup", "graph.node.id": "tools",
        "tool.parameters": '{"q": 7}', "output.value": "found",
    })  # fmt: skip
    retriever = span("r", "a", 4, attributes={
        "openinference.span.kind": "RETRIEVER",
        "retrieval.documents.0.document.id": "d0", "retrieval.documents.0.document.content": "text",
        "retrieval.documents.10.document.id": "d10", "retrieval.documents.2.document.id": "d2",
        "retrieval.documents.0.document.score": 0.25,
    })  # fmt: skip
    run = made(tool, retriever, model, root)
    assert run.subject == Subject("agent", "support", "unversioned")
    assert run.conversation_id == "s-1"
    assert payload(run.input) == {"message": "hi"}
    assert payload(run.output) == '{"a": 1}', "plain text is text"
    assert payload(run.messages) == [
        {"content": "hi", "role": "user"},
        {
            "role": "assistant",
            "tool_calls": [{"function": {"arguments": '{"q": 7}', "name": "lookup"}, "id": "c9"}],
        },
    ]
    assert payload(run.calls) == [{"nodeId": "tools", "toolId": "lookup", "arguments": {"q": 7}, "result": "found"}]
    assert payload(run.retrieved) == [{"content": "text", "id": "d0", "score": 0.25}, {"id": "d2"}, {"id": "d10"}]


def test_a_chain_is_a_flow_and_what_is_inside_is_its() -> None:
    chain = span(
        "f", attributes={"openinference.span.kind": "CHAIN", "input.value": "in", "output.value": "out"}, took=9
    )
    agent = span("a", "f", 1, attributes={"openinference.span.kind": "AGENT", "graph.node.id": "n1"}, took=5)
    tool = span("t", "a", 2, attributes={"openinference.span.kind": "TOOL", "tool.name": "x", "input.value": "{}"})
    run = made(tool, agent, chain)
    assert run.subject == Subject("flow", "f", "unversioned")
    assert (payload(run.input), payload(run.output)) == ("in", "out")
    assert payload(run.calls) == [{"nodeId": "n1", "toolId": "x", "arguments": {}, "result": None}]


def test_a_schema_in_tool_parameters_is_no_argument() -> None:
    root = span("a", attributes=genai("invoke_agent"))
    schema = '{"type": "object", "properties": {"q": {"type": "string"}}}'
    tool = span("t", "a", 1, attributes={
        "openinference.span.kind": "TOOL", "tool.parameters": schema, "input.value": "Paris",
    })  # fmt: skip
    assert payload(made(root, tool).calls) == [{"toolId": "t", "arguments": "Paris", "result": None}]
    both = span("t", "a", 1, attributes={**tool.attributes, "gen_ai.tool.call.arguments": schema})
    assert made(root, both).calls == made(root, tool).calls


def openinference(kind: str, **attributes: Any) -> dict[str, Any]:
    named = {name.replace("__", "."): value for name, value in attributes.items()}
    return {"openinference.span.kind": kind} | named


def asking(*calls: tuple[str, str | None]) -> dict[str, Any]:
    """The answer of a model that asks for calls of ``get_weather``: arguments and ids."""
    told: dict[str, Any] = {"openinference.span.kind": "LLM", "llm.output_messages.0.message.role": "assistant"}
    for number, (arguments, id) in enumerate(calls):
        prefix = f"llm.output_messages.0.message.tool_calls.{number}.tool_call"
        told |= {f"{prefix}.function.name": "get_weather", f"{prefix}.function.arguments": arguments}
        told |= {} if id is None else {f"{prefix}.id": id}
    return told


@pytest.mark.parametrize(
    ("inputs", "asked"),
    [
        (["Paris"], ['{"city": "Paris"}']),
        (["Paris, France"], ['{"city": "Paris", "note": null}']),
        (["2", "1"], ['{"city": 1}', '{"city": 2}']),
        (["Rome", "Oslo", "Paris"], ['{"city": "Paris"}', '{"city": "Oslo"}', '{"city": "Rome"}']),
        (['{"day": 2, "city": "Rome"}', "Paris"], ['{"city": "Paris"}', '{"city": "Rome", "day": 2}']),
    ],
)
def test_a_tools_only_argument_told_without_its_name_is_found_by_what_was_asked(
    inputs: list[str], asked: list[str]
) -> None:
    root = span("a", attributes=openinference("CHAIN"), took=9)
    model = span("m", "a", attributes=asking(*((arguments, f"call_{n}") for n, arguments in enumerate(asked))))
    tools = [
        span(f"t{at}", "a", at, attributes=openinference(
            "TOOL", tool__name="get_weather", input__value=told, output__value=f"of {told}"
        ))
        for at, told in enumerate(inputs, 1)
    ]  # fmt: skip
    calls = payload(made(root, model, *tools).calls)
    assert [call["arguments"] for call in calls] == [json.loads(arguments) for arguments in reversed(asked)]
    assert [call["result"] for call in calls] == [f"of {told}" for told in inputs]


def test_messages_that_stop_before_the_answer_give_way_to_the_models() -> None:
    heard = {"llm.input_messages.0.message.role": "user", "llm.input_messages.0.message.content": "hi"}
    said = {"llm.output_messages.0.message.role": "assistant", "llm.output_messages.0.message.content": "yo"}
    root = span("a", attributes=openinference("CHAIN") | heard, took=9)
    asked, told = {"role": "user", "content": "hi"}, {"role": "assistant", "content": "yo"}
    silent = span("m", "a", 1, attributes=openinference("LLM"))
    assert payload(made(root, silent).messages) == [asked]
    model = span("m", "a", 1, attributes=openinference("LLM") | heard | said)
    failed = span("n", "a", 2, failed=True, attributes=openinference("LLM") | heard)
    assert payload(made(root, model).messages) == [asked, told]
    assert payload(made(root, model, failed).messages) == [asked]
    instructed = span("a", attributes=genai("invoke_agent", system_instructions="Be brief."), took=9)
    assert payload(made(instructed, model).messages) == [asked, told]


def test_instructions_alone_are_no_input() -> None:
    instructed = genai("invoke_agent", system_instructions=json.dumps([{"type": "text", "content": "Be brief."}]))
    root = span("a", attributes=instructed, took=9)
    model = span("m", "a", 1, attributes=instructed | genai("chat", input__messages=json.dumps([user("Weather?")])))
    assert payload(made(root, model).input) == [user("Weather?")]
    assert made(root).input is None


def test_documents_told_both_ways_are_the_fuller_ones() -> None:
    told = {"gen_ai.retrieval.documents": '[{"id": "d", "score": 1}]', "retrieval.documents.0.document.content": "text"}
    found = span("r", "a", 1, attributes={"openinference.span.kind": "RETRIEVER"} | told)
    assert payload(made(span("a", attributes=genai("invoke_agent")), found).retrieved) == [{"content": "text"}]


@pytest.mark.parametrize(
    ("attributes", "events"),
    [
        ({"gen_ai.prompt": "hi", "gen_ai.completion": "yo"}, ()),
        ({"gen_ai.prompt.0.role": "user", "gen_ai.prompt.0.content": "hi", "gen_ai.completion.0.role": "assistant",
          "gen_ai.completion.0.content": "yo"}, ()),
        ({}, (Event("gen_ai.content.prompt", {"gen_ai.prompt": '[{"role": "user", "content": "hi"}]'}),
              Event("gen_ai.content.completion", {"gen_ai.completion": '[{"role": "assistant", "content": "yo"}]'}))),
        ({}, (Event("gen_ai.user.message", {"content": "hi"}), Event("gen_ai.choice", {"content": "yo"}))),
        ({}, (Event("gen_ai.user.message", {"gen_ai.event.content": '{"role": "user", "content": "hi"}'}),
              Event("gen_ai.choice", {"gen_ai.event.content": '{"role": "assistant", "content": "yo"}'}))),
    ],
)  # fmt: skip
def test_older_ways_to_tell_prompts_and_completions(attributes: dict[str, Any], events: tuple[Event, ...]) -> None:
    root = span("a", attributes=genai("invoke_agent"), took=5)
    run = made(root, span("c", "a", 1, attributes={"gen_ai.system": "openai"} | attributes, events=events))
    asked, told = {"role": "user", "content": "hi"}, {"role": "assistant", "content": "yo"}
    assert [payload(part) for part in (run.input, run.output, run.messages)] == [[asked], [told], [asked, told]]


def test_calls_that_only_models_speak_of_count_once_with_their_results() -> None:
    root = span("a", attributes=genai("invoke_agent"), took=9)
    again = ASKED | {"id": "c2", "arguments": '{"city": "Rome"}'}
    first = span("m1", "a", 1, attributes=genai("chat", output__messages=json.dumps([assistant(ASKED, again)])))
    told = {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c2", "response": {"sky": "sun"}}]}
    second = span("m2", "a", 5, attributes=genai("chat", input__messages=json.dumps([told])))
    tool = span("t", "a", 3, attributes=genai("execute_tool", tool__name="get_weather", tool__call__id="c1"))
    assert payload(made(root, first, second, tool).calls) == [
        {"toolId": "get_weather", "arguments": {"city": "Rome"}, "result": {"sky": "sun"}},
        {"toolId": "get_weather", "arguments": {"city": "Paris"}, "result": None},
    ]


def test_half_characters_are_kept_as_they_are_written() -> None:
    half = (
        '[{"role":"assistant","tool_calls":[{"id":"\\ud800","name":"x\\ud800","arguments":"{\\"a\\":\\"\\ud800\\"}"}]}]'
    )
    chat = span("m", "a", 1, attributes=genai("chat", output__messages=half))
    run = made(span("a", attributes=genai("invoke_agent")), chat)
    assert run.calls is not None
    assert '"toolId":"x?"' in run.calls
    assert '"arguments":"{\\"a\\":\\"\\ud800\\"}"' in run.calls
    for text in (run.calls, run.output, run.messages):
        assert text is not None
        text.encode()


def test_calls_are_in_the_order_in_which_they_began() -> None:
    root = span("a", attributes=genai("invoke_agent"), took=9)
    tools = [span(f"t{at}", "a", at, attributes=genai("execute_tool", tool__name=f"n{at}")) for at in (3, 1, 2)]
    assert [call["toolId"] for call in payload(made(*tools, root).calls)] == ["n1", "n2", "n3"]


def test_an_error_fails_the_run() -> None:
    assert made(span("a", failed=True, attributes=genai("invoke_agent"))).status == "failed"
    assert made(span("a", attributes=genai("invoke_agent") | {"error.type": "timeout"})).status == "failed"
    inside = span("t", "a", 1, failed=True, attributes=genai("execute_tool"))
    assert made(span("a", attributes=genai("invoke_agent")), inside).status == "completed"


def test_without_content_the_run_completes_with_no_messages() -> None:
    run = made(span("a", attributes=genai("invoke_agent")))
    assert (run.status, run.input, run.output) == ("completed", None, "[]")


def test_the_outermost_is_what_no_agent_or_workflow_is_around() -> None:
    http = span("h", attributes={"http.request.method": "POST"}, took=9)
    outer = span("o", "h", 1, attributes=genai("invoke_agent", agent__name="outer"), took=8)
    tool = span("t", "o", 2, attributes=genai("execute_tool", tool__name="ask"))
    inner = span("i", "t", 3, attributes=genai("invoke_agent", agent__name="inner"))
    assert made(inner, tool, outer, http).subject.id == "outer"


def test_a_parent_of_the_same_process_is_waited_for() -> None:
    inner = span("i", "t", 3, local_parent=True, attributes=genai("invoke_agent", agent__name="inner"))
    folded = fold([inner], "p")
    assert (folded.run, folded.waits) == (None, True)
    settled = fold([inner], "p", patient=False)
    assert settled.run is not None
    assert (settled.run.subject.id, settled.waits) == ("inner", False)
    remote = span("i", "t", 3, attributes=genai("invoke_agent", agent__name="inner"))
    assert made(remote).subject.id == "inner"


def test_no_agent_no_run() -> None:
    assert fold([CHAT, TOOL], "p").run is None
    assert fold([], "p").run is None


def test_circles_end() -> None:
    first = span("a", "b", attributes=genai("invoke_agent"))
    second = span("b", "a", attributes=genai("execute_tool"))
    assert fold([first, second], "p") == fold([second, first], "p")
    assert made(span("a", "a", attributes=genai("invoke_agent"))).status == "completed"


def test_text_that_only_looks_like_json_stays_text() -> None:
    for odd in ('{"a": NaN}', "[" * 200 + "]" * 200, "{not json}", '"\\ud800"', ""):
        tool = span("t", "a", 1, attributes=genai("execute_tool", tool__call__result=odd))
        (call,) = payload(made(span("a", attributes=genai("invoke_agent")), tool).calls)
        assert call["result"] == odd


def test_of_spans_that_are_none_of_ours_only_the_place_is_kept() -> None:
    kept = span(
        "h", "x", attributes={"http.url": "https://secret", "error.type": "500", "session.id": "s"}, name="GET /"
    )
    assert (kept.name, dict(kept.attributes), kept.parent_id) == ("", {}, "x")


def test_a_span_survives_being_kept() -> None:
    for each in (AGENT, CHAT, TOOL):
        again = otel.span_of(TRACE, each.id, otel.text_of(each))
        assert otel.text_of(again) == otel.text_of(each)
        assert fold([again], "p") == fold([each], "p")


SPANS = [
    AGENT, CHAT, TOOL, FOUND,
    span("t", "a", 3, took=2, attributes=genai("execute_tool", tool__name="get_weather", tool__call__result="later")),
    span("t", "a", 3, took=2, attributes=genai("execute_tool", tool__name="get_weather", tool__call__result="other")),
    span("i", "t", 4, local_parent=True, attributes=genai("invoke_agent", agent__name="inner")),
    span("e", "gone", 0, attributes=genai("invoke_agent", agent__name="elsewhere"), local_parent=True),
    span("h", "h2", 5, attributes={"http.method": "GET"}),
]  # fmt: skip


@given(st.permutations(SPANS), st.lists(st.integers(0, len(SPANS) - 1)), st.integers(1, 4))
def test_how_spans_arrive_makes_no_difference(order: list[Span], repeated: list[int], size: int) -> None:
    arriving = [*order, *(SPANS[at] for at in repeated)]
    kept: dict[str, str] = {}
    for start in range(0, len(arriving), size):
        kept |= otel.news(kept, arriving[start : start + size])
    expected = otel.news({}, SPANS)
    assert kept == expected
    assert otel.news(kept, SPANS) == {}
    folded = fold([otel.span_of(TRACE, id, text) for id, text in kept.items()], "p")
    assert folded.run is not None
    assert folded.run.subject.id == "ag-1"
    assert folded == fold([otel.span_of(TRACE, id, text) for id, text in sorted(expected.items())], "p")

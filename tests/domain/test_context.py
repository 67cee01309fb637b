from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from app.domain import context
from app.domain.context import Node, Part, Source, depth_first


def agent(**over: Any) -> Part:
    return Part(**({"run_id": "r", "kind": "agent", "subject_id": "a", "subject_version": "1"} | over))


def agent_context(own: Part, turns: Iterable[str] | None, replay_of: str | None) -> str:
    numbered = None if turns is None else ((f"turn-{n}", messages) for n, messages in enumerate(turns))
    return context.agent_context(own, numbered, replay_of).text


def flow_context(root: str, parts: Iterable[Part], replay_of: str | None) -> str:
    return context.flow_context(root, parts, replay_of).text


def read(text: str) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(text)
    return value


@given(st.lists(st.integers(0, 90), max_size=12))
def test_history_is_the_last_messages_of_all_turns(sizes: list[int]) -> None:
    numbers = iter(range(10_000))
    turns = [[next(numbers) for _ in range(size)] for size in sizes]
    said = [message for messages in turns for message in messages]
    made = read(agent_context(agent(), (json.dumps(messages) for messages in reversed(turns)), None))
    assert made["history"] == said[-200:]
    assert made.get("historyTruncated", False) == (len(said) > 200)


def test_history_reads_no_more_than_it_keeps() -> None:
    read_turns = []

    def turns() -> Iterator[str]:
        for number in range(10):
            read_turns.append(number)
            yield json.dumps([number] * 100)

    agent_context(agent(), turns(), None)
    assert read_turns == [0, 1, 2]


def test_history_is_bounded_in_size(monkeypatch: Any) -> None:
    monkeypatch.setattr(context, "MAX_CHARACTERS", 30)
    made = read(agent_context(agent(), ['["' + "c" * 8 + '"]'] * 5, None))
    assert made == {"history": ["c" * 8] * 3, "historyTruncated": True}


def test_parts_are_left_out_when_they_are_not_there() -> None:
    assert agent_context(agent(), None, None) == "{}"
    assert agent_context(agent(), [], None) == '{"history":[]}'
    assert flow_context("r", [agent(kind="flow")], None) == '{"flow":{"calls":[],"steps":[]}}'
    assert context.bare_context("r0").text == '{"replayOf":"r0"}'


def test_payloads_stay_to_the_letter() -> None:
    odd = '{"b":1.0,"a":[1e3,123456789012345678901234567890],"":"\\u0000\\ud800","b":"\\/"}'
    call = f'{{"env":{{"K":"\\u0041"}},"toolId":"t\\u0031","result":{odd},"arguments":{odd}}}'
    own = agent(retrieved=odd, recalled=odd, session_approval='{"approved":true}', calls=f"[{call}]")
    assert agent_context(own, [f"[{odd},{odd}]"], "r-0") == (
        f'{{"history":[{odd},{odd}],"retrieved":{odd},"recalled":{odd},"sessionApproval":{{"approved":true}},'
        '"toolEnv":{"t1":{"K":"\\u0041"}},"replayOf":"r-0"}'
    )
    assert flow_context("f", [agent(run_id="f", kind="flow", calls=f"[{call}]")], None) == (
        f'{{"flow":{{"calls":[{{"runId":"f","toolId":"t\\u0031","arguments":{odd},"result":{odd}}}],"steps":[]}},'
        '"toolEnv":{"t1":{"K":"\\u0041"}}}'
    )


def calls(*tools: str, **over: Any) -> str:
    return json.dumps([{"toolId": tool, "arguments": {}, "result": tool} | over for tool in tools])


def test_calls_say_where_they_were_made() -> None:
    place = {"nodeId": "n", "scope": "s"}
    parts = [
        agent(run_id="f", kind="flow", node_id="x", scope="x", calls=calls("own", **place, fromEvent=False)),
        agent(run_id="step", node_id="ask", scope="loop[1]", calls=calls("asked", **place, fromEvent=True)),
        agent(run_id="bare", calls=calls("bare", **place), retrieved="[1]", recalled="[2]"),
        agent(run_id="sub", kind="flow", node_id="x", calls=calls("below")),
    ]
    flow = read(flow_context("f", parts, None))["flow"]
    expected = [
        {"runId": "f", **place, "toolId": "own", "arguments": {}, "result": "own", "fromEvent": False},
        {"runId": "step", "nodeId": "ask", "scope": "loop[1]", "toolId": "asked", "arguments": {}, "result": "asked",
         "fromEvent": True},
        {"runId": "bare", "toolId": "bare", "arguments": {}, "result": "bare"},
        {"runId": "sub", "toolId": "below", "arguments": {}, "result": "below"},
    ]  # fmt: skip
    assert flow["calls"] == expected
    assert flow["steps"] == [
        {"runId": "step", "nodeId": "ask", "scope": "loop[1]", "agentId": "a", "agentVersion": "1"},
        {"runId": "bare", "agentId": "a", "agentVersion": "1", "retrieved": [1], "recalled": [2]},
    ]


def test_a_tools_env_is_that_of_its_first_call() -> None:
    own = json.dumps(
        [
            {"toolId": "a", "arguments": 1, "result": 1, "env": {"K": "first"}},
            {"toolId": "b", "arguments": 1, "result": 1},
            {"toolId": "a", "arguments": 1, "result": 1, "env": {"K": "second"}},
            {"toolId": "b", "arguments": 1, "result": 1, "env": {"K": "late"}},
            {"toolId": "c", "arguments": 1, "result": 1, "env": {}},
        ]
    )
    assert read(agent_context(agent(calls=own), None, None)) == {"toolEnv": {"a": {"K": "first"}, "c": {}}}


def test_calls_are_bounded_in_number() -> None:
    def made(count: int) -> dict[str, Any]:
        late = calls("late", env={"K": "v"})
        parts = [agent(run_id=f"s{n}", calls=calls(*["t"] * 100)) for n in range(count // 100)]
        return read(flow_context("f", [agent(run_id="f", kind="flow"), *parts, agent(run_id="z", calls=late)], None))

    fits, over = made(400), made(500)
    assert "truncated" not in fits["flow"]
    assert len(fits["flow"]["calls"]) == 401
    assert over["flow"]["truncated"] is True
    assert [call["runId"] for call in over["flow"]["calls"]] == [f"s{n}" for n in range(5) for _ in range(100)]
    assert len(over["flow"]["steps"]) == 6
    assert over["toolEnv"] == {"late": {"K": "v"}}


def test_what_is_kept_of_calls_and_steps_is_bounded_in_size(monkeypatch: Any) -> None:
    monkeypatch.setattr(context, "MAX_CHARACTERS", 200)
    parts = [
        agent(run_id="f", kind="flow", calls=calls("t" * 150, "u" * 150)),
        agent(run_id="s1", retrieved='"' + "x" * 150 + '"'),
        agent(run_id="s2", retrieved='"' + "x" * 150 + '"'),
    ]
    flow = read(flow_context("f", parts, None))["flow"]
    assert (len(flow["calls"]), flow["truncated"]) == (0, True)
    assert ["retrieved" in step for step in flow["steps"]] == [True, False]


@given(st.lists(st.tuples(st.integers(-1, 9), st.booleans()), max_size=10))
def test_depth_first_meets_each_run_below_once(rows: list[tuple[int, bool]]) -> None:
    nodes = [Node(str(n), None if parent < 0 else str(parent), counts) for n, (parent, counts) in enumerate(rows)]

    def expected(run_id: str, seen: tuple[str, ...]) -> list[str]:
        found = []
        for node in nodes:
            if node.parent_run_id == run_id and node.run_id not in ("0", *seen):
                found += [node.run_id] * node.counts + expected(node.run_id, (*seen, node.run_id))
        return found

    assert list(depth_first("0", nodes)) == ["0", *expected("0", ())]


def test_depth_first_goes_as_deep_as_need_be() -> None:
    nodes = [Node(str(n), str(n - 1)) for n in range(5000)]
    assert list(depth_first("0", nodes)) == [str(n) for n in range(5000)]


RUNS = ["a", "b", "c", "d"]


SIZES = st.lists(st.tuples(st.sampled_from(RUNS), st.integers(0, 3)), unique_by=lambda turn: turn[0])


@given(SIZES, st.sets(st.sampled_from(RUNS)))
def test_what_an_erased_run_said_leaves_a_history(sizes: list[tuple[str, int]], erased: set[str]) -> None:
    turns = [(run, json.dumps(["said by all", *range(size)])) for run, size in sizes]
    made = context.agent_context(agent(retrieved='{"r":1.0}'), turns, "r0")
    kept = context.agent_context(agent(retrieved='{"r":1.0}'), [turn for turn in turns if turn[0] not in erased], "r0")
    assert context.without(made.text, made.sources, erased) == kept.text


@given(st.lists(st.tuples(st.sampled_from(RUNS), st.sampled_from("xyz")), max_size=8), st.sets(st.sampled_from(RUNS)))
def test_what_an_erased_run_did_leaves_a_flow(did: list[tuple[str, str]], erased: set[str]) -> None:
    def part(run: str) -> Part:
        calls = [{"toolId": tool, "arguments": 1, "env": {"by": run}} for by, tool in did if by == run]
        return agent(run_id=run, retrieved=f'"{run}"', calls=json.dumps(calls))

    root = agent(run_id="f", kind="flow", calls='[{"toolId":"x","result":1e3}]')
    parts = [root, *map(part, RUNS)]
    made = context.flow_context("f", parts, None)
    left = read(context.without(made.text, made.sources, erased))
    kept = read(context.flow_context("f", [one for one in parts if one.run_id not in erased], None).text)
    assert left["flow"] == kept["flow"]
    assert {by["by"] for by in left.get("toolEnv", {}).values()}.isdisjoint(erased)


def test_what_was_cut_off_a_history_stays_cut_off() -> None:
    turns = [("c", json.dumps([3] * 150)), ("b", json.dumps([2] * 40)), ("a", json.dumps([1] * 90))]
    made = context.agent_context(agent(), turns, None)
    left = read(context.without(made.text, made.sources, {"a", "c"}))
    assert left == {"history": [2] * 40, "historyTruncated": True}
    assert made.sources == (Source("a", 10), Source("b", 40), Source("c", 150))


def test_an_env_whose_call_is_past_the_limit_goes_too() -> None:
    many = json.dumps([{"toolId": "t", "arguments": 1}] * context.MAX_CALLS)
    late = '[{"toolId":"late","arguments":1,"env":{"A":"b"}}]'
    root = agent(run_id="f", kind="flow", calls=many)
    made = context.flow_context("f", [root, agent(run_id="a", calls=late), agent(run_id="b")], None)
    assert read(made.text)["toolEnv"] == {"late": {"A": "b"}}
    assert "toolEnv" not in read(context.without(made.text, made.sources, {"b"}))

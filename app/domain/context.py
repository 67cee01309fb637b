"""The replay context of a corrected run, from the parts of the runs around it.

JSON texts in, one JSON text out: every payload is in it to the letter. Parts come as iterators, so that no more is
read than is kept.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from app.domain import json_text
from app.domain.model import SubjectKind

MAX_MESSAGES = 200
"""Messages that ``history`` holds at most."""
MAX_CALLS = 500
"""Calls that ``flow.calls`` holds at most."""
MAX_CHARACTERS = 64 * 1024 * 1024
"""No list grows past this, so that a context can be stored and read: what is too much is left out, as past a count."""


@dataclass(frozen=True, slots=True)
class Node:
    """A run's place below a corrected flow run. ``counts``: it had ended by then and its content is there."""

    run_id: str
    parent_run_id: str | None
    counts: bool = True


@dataclass(frozen=True, slots=True)
class Part:
    """What one run gives to a context: JSON texts as they came, ``None`` where there is none."""

    run_id: str
    kind: SubjectKind
    subject_id: str
    subject_version: str
    node_id: str | None = None
    scope: str | None = None
    calls: str | None = None
    retrieved: str | None = None
    recalled: str | None = None
    session_approval: str | None = None


@dataclass(frozen=True, slots=True)
class Source:
    """Another run that gave something to a context: how many messages of its history, if any."""

    run_id: str
    messages: int = 0


@dataclass(frozen=True, slots=True)
class Context:
    """A context's JSON, and which other runs it is from: of a history in its order, oldest first."""

    text: str
    sources: tuple[Source, ...] = ()


def agent_context(own: Part, turns: Iterable[tuple[str, str]] | None, replay_of: str | None) -> Context:
    """The context of an agent run. ``turns``: earlier runs of its conversation, newest first, each with its messages,
    a JSON array; ``None`` without a conversation."""
    gathered = _Gathered()
    gathered.add(own, step=False)
    history, sources = _history(turns) if turns is not None else ({}, ())
    text = _object(
        {
            **history,
            "retrieved": own.retrieved,
            "recalled": own.recalled,
            "sessionApproval": own.session_approval,
            "toolEnv": gathered.tool_env,
            "replayOf": _text(replay_of),
        }
    )
    return Context(text, sources)


def flow_context(root: str, parts: Iterable[Part], replay_of: str | None) -> Context:
    """The context of the flow run ``root``. ``parts``: its own and those of the runs below it, ``depth_first``."""
    gathered = _Gathered()
    sources = []
    for part in parts:
        gathered.add(part, step=part.run_id != root and part.kind == "agent")
        if part.run_id != root:
            sources.append(Source(part.run_id))
    flow = {
        "calls": _array(gathered.calls),
        "steps": _array(gathered.steps),
        "truncated": "true" if gathered.truncated else None,
    }
    text = _object({"flow": _object(flow), "toolEnv": gathered.tool_env, "replayOf": _text(replay_of)})
    return Context(text, tuple(sources))


def bare_context(replay_of: str | None) -> Context:
    """The context of a run of which nothing is there any more."""
    return Context(_object({"replayOf": _text(replay_of)}))


def without(text: str, sources: Sequence[Source], erased: Collection[str]) -> str:
    """The context in ``text`` without what the runs ``erased`` gave to it; all else to the letter.

    ``sources``: those of the context, as they were when it was made, less what was taken out since.
    """
    members: dict[str, str | None] = {**json_text.members(text)}
    if (history := members.get("history")) is not None:
        turns = [source.run_id for source in sources for _ in range(source.messages)]
        said = zip(turns, json_text.elements(history), strict=True)
        members["history"] = _array(message for run_id, message in said if run_id not in erased)
    if (flow := members.get("flow")) is not None:
        members["flow"], members["toolEnv"] = _flow_without(flow, members.get("toolEnv"), erased)
    return _object(members)


def _flow_without(flow: str, tool_env: str | None, erased: Collection[str]) -> tuple[str, str | None]:
    members: dict[str, str | None] = {**json_text.members(flow)}
    calls = [(_run_of(call), call) for call in json_text.elements(members["calls"] or "[]")]
    steps = json_text.elements(members["steps"] or "[]")
    members["calls"] = _array(call for run_id, call in calls if run_id not in erased)
    members["steps"] = _array(step for step in steps if _run_of(step) not in erased)
    first: dict[str, str] = {}
    for run_id, call in calls:
        first.setdefault(json_text.parse(json_text.members(call)["toolId"]), run_id)
    # An env whose call isn't shown, past the limit, may be an erased run's: it goes, too.
    envs = json_text.members(tool_env or "{}").items()
    kept = {tool: env for tool, env in envs if tool in first and first[tool] not in erased}
    return _object(members), _by_tool(kept)


def _run_of(part: str) -> str:
    run_id: str = json_text.parse(json_text.members(part)["runId"])
    return run_id


def depth_first(root: str, nodes: Iterable[Node]) -> Iterator[str]:
    """The ids of the runs that count, ``root`` first, then those below it. ``nodes`` come in their order in time.

    A run whose ``parent_run_id`` leads back to itself is met once.
    """
    below: dict[str | None, list[Node]] = defaultdict(list)
    for node in nodes:
        if node.run_id != root:
            below[node.parent_run_id].append(node)
    waiting = [Node(root, None)]
    while waiting:
        node = waiting.pop()
        if node.counts:
            yield node.run_id
        waiting += reversed(below.pop(node.run_id, []))


def _history(turns: Iterable[tuple[str, str]]) -> tuple[dict[str, str | None], tuple[Source, ...]]:
    kept: list[str] = []
    counts: dict[str, int] = {}
    size, truncated = 0, False
    for run_id, message in _newest_first(turns):
        size += len(message)
        if len(kept) == MAX_MESSAGES or size > MAX_CHARACTERS:
            truncated = True
            break
        kept.append(message)
        counts[run_id] = counts.get(run_id, 0) + 1
    sources = tuple(Source(run_id, count) for run_id, count in reversed(counts.items()))
    return {"history": _array(reversed(kept)), "historyTruncated": "true" if truncated else None}, sources


def _newest_first(turns: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    for run_id, messages in turns:
        yield from ((run_id, message) for message in reversed(json_text.elements(messages)))


@dataclass(slots=True)
class _Gathered:
    """What the calls and steps met so far come to."""

    calls: list[str] = field(default_factory=list)
    steps: list[str] = field(default_factory=list)
    truncated: bool = False
    _env: dict[str, str | None] = field(default_factory=dict)
    _call_size: int = 0
    _step_size: int = 0

    def add(self, part: Part, *, step: bool) -> None:
        """Take in the calls of one run, and the run itself if it is an agent step."""
        if step:
            self._add_step(part)
        for call in json_text.elements(part.calls or "[]"):
            members = json_text.members(call)
            self._env.setdefault(json_text.parse(members["toolId"]), members.get("env"))
            self._add_call(part, members, step)

    def _add_step(self, part: Part) -> None:
        self._step_size += len(part.retrieved or "") + len(part.recalled or "")
        fits = self._step_size <= MAX_CHARACTERS
        self.steps.append(
            _object(
                {
                    "runId": _text(part.run_id),
                    "nodeId": _text(part.node_id),
                    "scope": _text(part.scope),
                    "agentId": _text(part.subject_id),
                    "agentVersion": _text(part.subject_version),
                    "retrieved": part.retrieved if fits else None,
                    "recalled": part.recalled if fits else None,
                }
            )
        )

    def _add_call(self, part: Part, members: dict[str, str], step: bool) -> None:
        shown = _object(
            {
                "runId": _text(part.run_id),
                "nodeId": _text(part.node_id) if step else members.get("nodeId"),
                "scope": _text(part.scope) if step else members.get("scope"),
                "toolId": members["toolId"],
                "arguments": members.get("arguments"),
                "result": members.get("result"),
                "fromEvent": members.get("fromEvent"),
            }
        )
        self._call_size += len(shown)
        if self.truncated or len(self.calls) == MAX_CALLS or self._call_size > MAX_CHARACTERS:
            self.truncated = True
        else:
            self.calls.append(shown)

    @property
    def tool_env(self) -> str | None:
        """The env of each tool's first call, where that had one."""
        return _by_tool({tool: env for tool, env in self._env.items() if env is not None})


def _by_tool(envs: dict[str, str]) -> str | None:
    return "{" + ",".join(f"{json_text.dump(tool)}:{env}" for tool, env in envs.items()) + "}" if envs else None


def _text(value: str | None) -> str | None:
    return None if value is None else json_text.dump(value)


def _array(texts: Iterable[str]) -> str:
    return "[" + ",".join(texts) + "]"


def _object(members: dict[str, str | None]) -> str:
    return "{" + ",".join(f'"{name}":{text}' for name, text in members.items() if text is not None) + "}"

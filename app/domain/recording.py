"""What a correction may say, beyond its shape; and whether what it points at is there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from app.domain import pointers
from app.domain.errors import BadInput, ItemNotFound
from app.domain.model import Verdict


@dataclass(frozen=True, slots=True)
class ExpectedCall:
    """A call that should have been made. ``args``: the top-level argument fields to compare, by value."""

    tool: str
    args: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Item:
    """An item of a ranked list, and whether it was right there. ``pointer``: where it is in the run's output."""

    key: str
    verdict: Verdict
    pointer: str | None = None
    rank: int | None = None


@dataclass(frozen=True, slots=True)
class Said:
    """One caller's word on one run. What says nothing (an empty list, a blank text) is absent here."""

    decisions: Verdict | None = None
    should_call: tuple[ExpectedCall, ...] = ()
    must_not_call: tuple[str, ...] = ()
    answer: Verdict | None = None
    should_say: str | None = None
    why: str | None = None
    items: tuple[Item, ...] = ()


def said(body: Mapping[str, Any]) -> Said:
    """What a well-shaped ``body`` says.

    :raises BadInput: naming everything that contradicts itself or is left open.
    """
    word = Said(
        body.get("decisions"),
        tuple(ExpectedCall(call["tool"], call.get("args", {})) for call in body.get("should_call", ())),
        tuple(body.get("must_not_call", ())),
        body.get("answer"),
        _unless_blank(body.get("should_say")),
        _unless_blank(body.get("why")),
        tuple(Item(i["key"], i["verdict"], i.get("pointer"), i.get("rank")) for i in body.get("items", ())),
    )
    issues = [*_about_decisions(word), *_about_answer(word), *_about_items(word)]
    if not (word.decisions or word.answer or word.items):
        issues.append(("", "must say at least one of decisions, answer and items"))
    if issues:
        path, message = issues[0]
        raise BadInput(
            f"{path or 'The body'} {message}.", issues=[{"path": path, "message": message} for path, message in issues]
        )
    return word


def _unless_blank(text: str | None) -> str | None:
    return text if text is not None and text.strip() else None


def _about_decisions(word: Said) -> list[tuple[str, str]]:
    if word.decisions != "wrong":
        only = 'goes only with decisions "wrong"'
        return [(path, only) for path, given in _calls(word) if given]
    if not (word.should_call or word.must_not_call):
        return [("/decisions", "is wrong, so it needs an entry in shouldCall or mustNotCall")]
    wanted = {call.tool for call in word.should_call}
    return [
        (f"/mustNotCall/{index}", "is in shouldCall too")
        for index, tool in enumerate(word.must_not_call)
        if tool in wanted
    ]


def _calls(word: Said) -> tuple[tuple[str, Sequence[Any]], ...]:
    return ("/shouldCall", word.should_call), ("/mustNotCall", word.must_not_call)


def _about_answer(word: Said) -> list[tuple[str, str]]:
    if word.answer != "wrong":
        return [("/shouldSay", 'goes only with answer "wrong"')] if word.should_say else []
    if not (word.should_say or word.why):
        return [("/answer", "is wrong, so it needs shouldSay or why")]
    return []


def _about_items(word: Said) -> list[tuple[str, str]]:
    seen: set[str] = set()
    issues = []
    for index, item in enumerate(word.items):
        if item.key in seen:
            issues.append((f"/items/{index}/key", "is given twice"))
        seen.add(item.key)
    return issues


def check_pointers(items: Sequence[Item], output: Any) -> None:
    """Every item's pointer must lead to a value in ``output`` (parsed JSON).

    :raises ItemNotFound: naming all that don't.
    """
    lost = [
        {"index": index, "pointer": item.pointer}
        for index, item in enumerate(items)
        if item.pointer is not None and not pointers.resolves(item.pointer, output)
    ]
    if lost:
        raise ItemNotFound("An item's pointer leads to nothing in the run's output.", items=lost)

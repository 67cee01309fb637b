"""Expected behaviour from weighted corrections: what a case of a test set asks of a run.

Each correction's word counts at its corrector group's weight; where both sides weigh the same, it is disputed.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from itertools import chain
from typing import Any

from app.domain.canonical import by_value

UNCLASSIFIED = Decimal(1)
"""What a correction without a corrector group counts."""

_EXACT = Context(prec=1500)
"""Enough for any sum of doubles: 0.1 and 0.2 weigh as much as 0.3, and 1e16 and 1 more than 1e16."""


@dataclass(frozen=True, slots=True)
class Weighed:
    """What one live correction says (its wire form, as ``json_text.parse`` gives it), and what its word counts."""

    says: Mapping[str, Any]
    weight: Decimal = UNCLASSIFIED


def expected(corrections: Sequence[Weighed]) -> dict[str, Any]:
    """``{decisions?, answer?, items?}`` in the wire form; what no correction speaks of is absent.

    Lists hold what those on the wrong side ask for, in the order of ``corrections``, each thing once.
    """
    parts = {"decisions": _decisions(corrections), "answer": _answer(corrections), "items": _items(corrections)}
    return {name: part for name, part in parts.items() if part}


def _decisions(corrections: Sequence[Weighed]) -> dict[str, Any]:
    balance, wrong = _sides("decisions", corrections)
    return balance and balance | {
        "shouldCall": _once(chain.from_iterable(says.get("shouldCall", ()) for says in wrong)),
        "mustNotCall": _once(chain.from_iterable(says.get("mustNotCall", ()) for says in wrong)),
    }


def _answer(corrections: Sequence[Weighed]) -> dict[str, Any]:
    balance, wrong = _sides("answer", corrections)
    return balance and balance | {"shouldSay": _once(says["shouldSay"] for says in wrong if "shouldSay" in says)}


def _sides(part: str, corrections: Sequence[Weighed]) -> tuple[dict[str, Any], list[Mapping[str, Any]]]:
    """How those who speak of ``part`` weigh (nothing if nobody does), and what those say who find it wrong."""
    spoken = [c for c in corrections if part in c.says]
    balance = _balance((c.says[part], c.weight) for c in spoken) if spoken else {}
    return balance, [c.says for c in spoken if c.says[part] == "wrong"]


def _items(corrections: Sequence[Weighed]) -> list[dict[str, Any]]:
    """Each key once, in ranked order; ``pointer`` and ``rank`` are the first that was given with the key."""
    where: dict[str, dict[str, Any]] = {}
    words: dict[str, list[tuple[str, Decimal]]] = {}
    for correction in corrections:
        for item in correction.says.get("items", ()):
            key = item["key"]
            place = {name: item[name] for name in ("pointer", "rank") if name in item}
            where[key] = {"key": key} | place | where.get(key, {})
            words.setdefault(key, []).append((item["verdict"], correction.weight))
    found = [where[key] | _balance(words[key]) for key in words]
    return sorted(found, key=lambda item: (0, item["rank"]) if "rank" in item else (1, 0))


def _balance(words: Iterable[tuple[str, Decimal]]) -> dict[str, Any]:
    weights = {"right": Decimal(0), "wrong": Decimal(0)}
    for verdict, weight in words:
        weights[verdict] = _EXACT.add(weights[verdict], weight)
    right, wrong = weights["right"], weights["wrong"]
    verdict = "disputed" if right == wrong else "right" if right > wrong else "wrong"
    return {"verdict": verdict, "weightRight": shown(right), "weightWrong": shown(wrong)}


def shown(weight: Decimal) -> int | Decimal:
    """``weight`` as the wire shows it: whole ones without a fraction."""
    whole = weight == weight.to_integral_value() and weight.adjusted() < 15
    return int(weight) if whole else weight.normalize(_EXACT)


def _once(values: Iterable[Any]) -> list[Any]:
    first: dict[Hashable, Any] = {}
    for value in values:
        first.setdefault(by_value(value), value)
    return list(first.values())

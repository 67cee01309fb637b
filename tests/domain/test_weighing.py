from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain import json_text
from app.domain.weighing import Weighed, expected

VERDICT = st.sampled_from(["right", "wrong"])
WEIGHT = st.floats(0, allow_nan=False, allow_infinity=False).map(repr) | st.sampled_from(
    ["0", "0.1", "0.2", "0.3", "1"]
)


def says(weight: str = "1", **parts: Any) -> Weighed:
    return Weighed(parts, Decimal(weight))


def test_nobody_says_anything() -> None:
    assert expected([]) == {}


def test_the_heavier_side_wins_and_the_lists_are_of_the_wrong_side() -> None:
    found = expected(
        [
            says("3", decisions="right"),
            says(decisions="wrong", shouldCall=[{"tool": "refund", "args": {"id": 1}}], mustNotCall=["cancel"]),
            says("0.5", decisions="wrong", mustNotCall=["cancel", "close"]),
        ]
    )
    assert found == {
        "decisions": {
            "verdict": "right",
            "weightRight": 3,
            "weightWrong": Decimal("1.5"),
            "shouldCall": [{"tool": "refund", "args": {"id": 1}}],
            "mustNotCall": ["cancel", "close"],
        }
    }


def test_each_thing_is_asked_once_by_value() -> None:
    calls = [json_text.parse(text) for text in ('{"n":1,"m":[2]}', '{"m":[2.0],"n":1.0}', '{"m":[2],"n":true}')]
    found = expected([says(decisions="wrong", shouldCall=[{"tool": "t", "args": args}]) for args in calls])
    assert [call["args"] for call in found["decisions"]["shouldCall"]] == [calls[0], calls[2]]
    found = expected([says(answer="wrong", shouldSay=text) for text in ("no", "yes", "no")])
    assert found["answer"]["shouldSay"] == ["no", "yes"]


def test_an_answer_may_be_wrong_with_nothing_to_say_instead() -> None:
    found = expected([says(answer="wrong", why="rude")])
    assert found == {"answer": {"verdict": "wrong", "weightRight": 0, "weightWrong": 1, "shouldSay": []}}


@pytest.mark.parametrize(
    ("right", "wrong", "verdict"),
    [
        (["0.1", "0.2"], ["0.3"], "disputed"),
        (["1e16", "1"], ["1e16"], "right"),
        (["1.7976931348623157e308", "5e-324"], ["1.7976931348623157e308"], "right"),
        (["0"], [], "disputed"),
        (["1", "1"], ["2"], "disputed"),
    ],
)
def test_ties_are_exact(right: list[str], wrong: list[str], verdict: str) -> None:
    spoken = [says(w, answer="right") for w in right] + [says(w, answer="wrong") for w in wrong]
    assert expected(spoken)["answer"]["verdict"] == verdict


def test_items_are_weighed_by_their_keys_and_come_in_ranked_order() -> None:
    found = expected(
        [
            says(items=[{"key": "b", "verdict": "wrong"}, {"key": "c", "rank": 0, "verdict": "right"}]),
            says("2", items=[{"key": "b", "pointer": "/m/1", "rank": 1, "verdict": "right"}]),
            says(items=[{"key": "a", "verdict": "wrong"}]),
        ]
    )
    assert found["items"] == [
        {"key": "c", "rank": 0, "verdict": "right", "weightRight": 1, "weightWrong": 0},
        {"key": "b", "pointer": "/m/1", "rank": 1, "verdict": "right", "weightRight": 2, "weightWrong": 1},
        {"key": "a", "verdict": "wrong", "weightRight": 0, "weightWrong": 1},
    ]


@given(st.lists(st.tuples(VERDICT, WEIGHT), min_size=1, max_size=12))
def test_weights_add_up_exactly_whatever_the_order(words: list[tuple[str, str]]) -> None:
    found = expected([says(weight, answer=verdict) for verdict, weight in words])["answer"]
    sides = {v: sum((Fraction(w) for verdict, w in words if verdict == v), Fraction(0)) for v in ("right", "wrong")}
    assert Fraction(found["weightRight"]) == sides["right"]
    assert Fraction(found["weightWrong"]) == sides["wrong"]
    heavier = "right" if sides["right"] > sides["wrong"] else "wrong"
    assert found["verdict"] == ("disputed" if sides["right"] == sides["wrong"] else heavier)
    assert json_text.parse(json_text.dump(found)) == found

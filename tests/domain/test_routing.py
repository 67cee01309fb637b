from __future__ import annotations

from itertools import product
from typing import get_args

from app.domain.model import Queue, Status
from app.domain.routing import EndedReason, Place, ended_reason, queue_of
from app.services.route import changes

ALL = [
    Place(status, queue, superseded)
    for status, queue, superseded in product(get_args(Status), (*get_args(Queue), None), (False, True))
]


def test_only_live_sorted_waiting_corrections_are_in_a_queue() -> None:
    waiting = [place for place in ALL if queue_of(place)]
    assert all(place.status in ("open", "with-owner") and not place.superseded for place in waiting)
    assert [place.sorted_to for place in waiting] == [queue_of(place) for place in waiting]
    assert len(waiting) == 2 * 3


def test_each_way_out_of_a_queue_has_its_reason() -> None:
    reasons = {ended_reason(place) for place in ALL}
    assert reasons == set(get_args(EndedReason))
    assert {ended_reason(place) for place in ALL if place.superseded} == {"superseded"}
    assert ended_reason(Place("open", "developer", False)) == "re-sorted"


def test_changes_make_each_correction_be_where_it_belongs() -> None:
    for place, held in product(ALL, ((), ("item", "improve"), ("item", "owner"))):
        ends, wanted = changes({"c": place}, {"c": held} if held else {})
        in_after = held[1] if held and not ends else wanted.get("c")
        assert in_after == queue_of(place), place
        assert not (held and wanted and not ends), "never two at once"
        assert changes({"c": place}, {"c": ("item", in_after)} if in_after else {}) == ({}, {})

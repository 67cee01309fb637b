from __future__ import annotations

from typing import Any

import pytest

from app.domain.errors import BadInput, ScopeInvalid
from app.domain.filtering import Filters, filters_of
from app.domain.model import Principal

ANN = Principal("user", "ann")


@pytest.mark.parametrize(
    ("query", "filters"),
    [
        ({}, Filters()),
        ({"from_": "all"}, Filters()),
        ({"scope_kind": "tenant", "inherit": True}, Filters()),
        ({"made_by": "me"}, Filters(made_by=ANN)),
        ({"status": ["not-fixed"]}, Filters(statuses=("open", "being-fixed", "with-owner"))),
        ({"status": ["open", "not-fixed", "removed"]},
         Filters(statuses=("open", "being-fixed", "with-owner", "removed"))),
        ({"status": []}, Filters(statuses=("open", "being-fixed", "with-owner", "fixed", "wont-fix"))),
        ({"scope_kind": "project", "scope_id": "p"}, Filters(project_id="p")),
        ({"scope_kind": "org", "scope_id": "o"}, Filters(org_id="o")),
        ({"agent_id": "a", "agent_version": "1"}, Filters(agent_id="a", agent_version="1")),
    ],
)  # fmt: skip
def test_a_query_asks_for(query: dict[str, Any], filters: Filters) -> None:
    assert filters_of(query, ANN) == filters


@pytest.mark.parametrize(
    "query",
    [
        {"scope_kind": "project"},
        {"scope_kind": "org"},
        {"scope_kind": "tenant", "scope_id": "x"},
        {"scope_id": "x"},
    ],
)
def test_a_scope_is_whole_or_none(query: dict[str, Any]) -> None:
    with pytest.raises(ScopeInvalid):
        filters_of(query, ANN)


def test_a_version_needs_its_agent() -> None:
    with pytest.raises(BadInput, match="agentVersion"):
        filters_of({"agent_version": "1", "flow_id": "f"}, ANN)

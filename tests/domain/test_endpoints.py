from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from app.domain.endpoints import Endpoint, EndpointScope, addressees
from app.domain.messages import EVENTS, FIXED, REOPENED, WITH_OWNER
from app.domain.model import Principal, ProjectRef

NOW = datetime(2026, 1, 1, tzinfo=UTC)
ANN, BOB = Principal("user", "ann"), Principal("user", "bob")
TENANT = EndpointScope("tenant")
PROJECT = EndpointScope("project", ProjectRef("p"))
OTHER = EndpointScope("project", ProjectRef("q"))


def of(principal: Principal) -> EndpointScope:
    return EndpointScope("principal", principal=principal)


def endpoint(id: str, scope: EndpointScope, *events: str, kind: str = "webhook", target: str = "") -> Endpoint:
    target = target or id
    return Endpoint(
        id, kind, target, target.encode(), events or (WITH_OWNER,), scope, 60, ANN, NOW, NOW  # type: ignore[arg-type]
    )  # fmt: skip


def told(owners: list[Principal], *endpoints: Endpoint, type: str = WITH_OWNER) -> list[str]:
    return [found.id for found in addressees(type, "p", owners, endpoints)]


MANY = (
    endpoint("ann", of(ANN)),
    endpoint("ann-2", of(ANN)),
    endpoint("bob", of(BOB)),
    endpoint("p", PROJECT),
    endpoint("q", OTHER),
    endpoint("t", TENANT),
)


def test_each_owner_is_told_through_all_of_their_own() -> None:
    assert told([ANN], *MANY) == ["ann", "ann-2"]
    assert told([ANN, BOB], *MANY) == ["ann", "ann-2", "bob"]
    assert told([ANN, ANN], *MANY) == ["ann", "ann-2"]


def test_the_projects_stand_in_once_for_owners_without_one() -> None:
    without_own = [one for one in MANY if one.id in ("p", "q", "t")]
    assert told([ANN, BOB], *without_own) == ["p"]
    assert told([ANN, Principal("user", "cem"), Principal("service", "bob")], *MANY) == ["ann", "ann-2", "p"]


def test_the_tenants_stand_in_for_the_projects() -> None:
    assert told([BOB], MANY[0], MANY[4], MANY[5]) == ["t"]


def test_a_subject_without_owners_goes_to_the_project_or_the_tenant() -> None:
    assert told([], *MANY) == ["p"]
    assert told([], MANY[0], MANY[5]) == ["t"]
    assert told([], MANY[0]) == []


def test_what_an_owners_endpoint_does_not_take_falls_to_the_projects() -> None:
    mine, projects = endpoint("ann", of(ANN), FIXED), endpoint("p", PROJECT, WITH_OWNER, FIXED)
    assert told([ANN], mine, projects, type=FIXED) == ["ann"]
    assert told([ANN], mine, projects) == ["p"]
    assert told([ANN], mine, projects, type=REOPENED) == []


def test_endpoints_out_of_use_are_as_if_they_were_not() -> None:
    ended = replace(MANY[0], ended_at=NOW), replace(MANY[1], unregistered_at=NOW)
    assert told([ANN], *ended, *MANY[3:]) == ["p"]


def test_somebody_in_two_roles_reads_one_copy() -> None:
    mine = endpoint("ann", of(ANN), kind="email", target="ann@x")
    lead = endpoint("p", PROJECT, kind="email", target="ann@x")
    assert told([ANN, BOB], mine, lead) == ["ann"]
    hooks = endpoint("ann", of(ANN), target="https://x"), endpoint("p", PROJECT, target="https://x")
    assert told([ANN, BOB], *hooks) == ["ann", "p"], "each webhook has a secret of its own"


principals = st.sampled_from([ANN, BOB, Principal("service", "ann")])
scopes = st.one_of(st.sampled_from([TENANT, PROJECT, OTHER]), principals.map(of))


@given(
    st.lists(principals, max_size=4),
    st.lists(st.tuples(scopes, st.sets(st.sampled_from(EVENTS), min_size=1)), max_size=6),
    st.sampled_from(EVENTS),
)
def test_nobody_is_told_twice_or_for_nothing(
    owners: list[Principal], drawn: list[tuple[EndpointScope, set[str]]], type: str
) -> None:
    endpoints = [endpoint(str(n), scope, *events) for n, (scope, events) in enumerate(drawn)]
    found = addressees(type, "p", owners, endpoints)
    assert len({one.id for one in found}) == len(found)
    for one in found:
        assert type in one.events
        assert one.scope in (TENANT, PROJECT) or one.scope.principal in owners
    kinds = {one.scope.kind for one in found}
    assert not {"tenant", "project"} <= kinds
    anybody = [one for one in endpoints if type in one.events and one.scope in (TENANT, PROJECT)]
    assert found or not anybody, "an event that somebody asked for is never lost"

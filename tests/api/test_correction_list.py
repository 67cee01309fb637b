"""GET /v1/corrections: each filter, and permission."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest
from sqlalchemy import Engine

from app.domain.model import Grant
from tests.api.corrected import RIGHT, WRONG_ANSWER, WRONG_CALL, first_page, put_into, record
from tests.client import Client
from tests.conftest import ClientOf
from tests.factories import a_project, a_run


def recorded_id(client: Client, run: str, **said: Any) -> str:
    return str(record(client, run, **said)["id"])


def test_an_empty_list(admin: Client) -> None:
    assert admin.get("/v1/corrections").json == {"data": [], "hasMore": False}


def test_filters_by_what_was_corrected(admin: Client, engine: Engine, tenant: str) -> None:
    old = recorded_id(admin, a_run(engine, tenant, id="r1", subject_version="1"), **RIGHT)
    new = recorded_id(admin, a_run(engine, tenant, subject_version="2"), **RIGHT)
    flow = recorded_id(admin, a_run(engine, tenant, subject_kind="flow", subject_id="support"), **RIGHT)
    odd = recorded_id(admin, a_run(engine, tenant, subject_id="a,b/ü", subject_version="1,2"), **RIGHT)
    assert first_page(admin) == [odd, flow, new, old]
    assert first_page(admin, "runId=r1") == [old]
    assert first_page(admin, "agentId=support") == [new, old]
    assert first_page(admin, "agentId=support&agentVersion=2") == [new]
    assert first_page(admin, "flowId=support") == [flow]
    assert first_page(admin, f"agentId={quote('a,b/ü')}&agentVersion={quote('1,2')}") == [odd]
    assert first_page(admin, "agentId=support&flowId=support") == []
    assert first_page(admin, "runId=nope") == []


def test_filters_by_where_it_stands(admin: Client, engine: Engine, tenant: str) -> None:
    owner = recorded_id(admin, a_run(engine, tenant), **WRONG_CALL)
    improve = recorded_id(admin, a_run(engine, tenant), **WRONG_ANSWER)
    fixed = recorded_id(admin, a_run(engine, tenant), **RIGHT)
    unsorted = recorded_id(admin, a_run(engine, tenant), **RIGHT, participantId="u")
    being = recorded_id(admin, a_run(engine, tenant), **WRONG_ANSWER)
    put_into(engine, tenant, being, status="being-fixed")
    removed = recorded_id(admin, a_run(engine, tenant), **WRONG_ANSWER)
    put_into(engine, tenant, removed, status="removed", unregistered_at="2026-01-01T00:00:00Z")
    every = [being, unsorted, fixed, improve, owner]
    assert first_page(admin) == every
    assert first_page(admin, "status=") == every
    assert first_page(admin, "status=fixed") == [fixed]
    assert first_page(admin, "status=fixed,with-owner") == [fixed, owner]
    assert first_page(admin, "status=fixed&status=with-owner,+fixed%20,") == [fixed, owner]
    assert first_page(admin, "status=not-fixed") == [being, unsorted, improve, owner]
    assert first_page(admin, "status=not-fixed,open,fixed") == every
    assert first_page(admin, "status=removed") == [removed]
    assert first_page(admin, "status=removed,open") == [removed, unsorted, improve]
    assert first_page(admin, "sortedTo=none") == [unsorted, fixed]
    assert first_page(admin, "sortedTo=improve") == [being, improve]
    assert first_page(admin, "sortedTo=none&sortedTo=owner") == [unsorted, fixed, owner]
    assert first_page(admin, "sortedTo=developer") == []
    assert first_page(admin, "sortedTo=improve,owner&status=open,with-owner") == [improve, owner]


def test_a_superseded_one_is_never_listed(admin: Client, engine: Engine, tenant: str) -> None:
    run = a_run(engine, tenant)
    old = recorded_id(admin, run, **WRONG_CALL)
    new = recorded_id(admin, run, **RIGHT)
    assert first_page(admin, "status=not-fixed,fixed,wont-fix,removed") == [new]
    assert first_page(admin, f"runId={run}") == [new]
    assert admin.get(f"/v1/corrections/{old}").json["status"] == "with-owner"


def test_filters_by_who_made_it(admin: Client, client_of: ClientOf, engine: Engine, tenant: str) -> None:
    run = a_run(engine, tenant)
    group = admin.post(
        "/v1/corrector-groups",
        {"name": "g", "weight": 1, "scope": {"kind": "tenant"}, "assertableBy": {"principalKinds": ["user"]}},
    ).json["id"]
    plain = recorded_id(admin, run, **RIGHT)
    end_user = recorded_id(admin, run, **RIGHT, participantId="u,1")
    expert = recorded_id(admin, run, **RIGHT, correctorGroupId=group, participantId="u2")
    ben = client_of(role="admin", user="ben")
    bens = recorded_id(ben, run, **RIGHT)
    assert first_page(admin, "from=experts") == [expert]
    assert first_page(admin, "from=end-users") == [end_user]
    assert first_page(admin, "from=all") == [bens, expert, end_user, plain]
    assert first_page(admin, "madeBy=me") == [expert, end_user, plain]
    assert first_page(ben, "madeBy=me") == [bens]
    assert first_page(client_of(role="admin", user="x"), "madeBy=me") == []
    assert first_page(admin, f"correctorGroupId={group}") == [expert]
    assert first_page(admin, "participantId=u%2C1") == [end_user]
    assert first_page(admin, "participantId=u2&from=experts&madeBy=me") == [expert]


def test_since_is_inclusive_and_until_exclusive(admin: Client, engine: Engine, tenant: str) -> None:
    ids = [recorded_id(admin, a_run(engine, tenant), **RIGHT) for _ in range(3)]
    for second, correction in enumerate(ids):
        put_into(engine, tenant, correction, created_at=f"2026-01-31T12:00:0{second}.500Z")
    assert first_page(admin, "since=2026-01-31T12:00:01.500Z") == [ids[2], ids[1]]
    assert first_page(admin, "until=2026-01-31T12:00:01.500Z") == [ids[0]]
    assert first_page(admin, "since=2026-01-31T12:00:01.500Z&until=2026-01-31T12:00:01.501Z") == [ids[1]]
    assert first_page(admin, "since=2026-01-31T14:00:01.500%2B02:00") == [ids[2], ids[1]]
    assert first_page(admin, "since=2026-01-31T12:00:01.5004Z") == [ids[2]]
    assert first_page(admin, "since=9999-12-31T23:59:59Z") == []
    assert first_page(admin, "until=0001-01-01T00:00:00Z") == []


def test_a_time_that_was_shown_works_as_a_filter(admin: Client, engine: Engine, tenant: str) -> None:
    correction = recorded_id(admin, a_run(engine, tenant), **RIGHT)
    shown = admin.get("/v1/corrections").json["data"][0]["createdAt"]
    assert first_page(admin, f"since={shown}") == [correction]
    assert first_page(admin, f"until={shown}") == []


def test_scopes_narrow(admin: Client, engine: Engine, tenant: str) -> None:
    a_project(engine, tenant, "q", "o")
    a_project(engine, tenant, "r", "o")
    in_p, in_q, in_r = (recorded_id(admin, a_run(engine, tenant, project_id=p), **RIGHT) for p in "pqr")
    assert first_page(admin, "scopeKind=tenant&inherit=true") == [in_r, in_q, in_p]
    assert first_page(admin, "scopeKind=project&scopeId=q&inherit=false") == [in_q]
    assert first_page(admin, "scopeKind=org&scopeId=o") == [in_r, in_q]
    assert first_page(admin, "scopeKind=org&scopeId=p") == []
    assert first_page(admin, "scopeKind=project&scopeId=nope") == []
    assert first_page(admin, "inherit=true") == [in_r, in_q, in_p]


@pytest.mark.parametrize(
    "query", ["scopeKind=project", "scopeKind=org", "scopeId=p", "scopeKind=tenant&scopeId=p", "scopeKind=org&scopeId="]
)
def test_a_scope_that_is_none(admin: Client, query: str) -> None:
    answer = admin.get(f"/v1/corrections?{query}")
    assert (answer.status_code, answer.json["error"]["code"]) == (400, "scope-invalid")


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ("limit=0", "limit"), ("limit=101", "limit"), ("limit=x", "limit"), ("limit=1.0", "limit"),
        ("limit=-1", "limit"), ("limit=%2B1", "limit"), ("limit=1&limit=2", "limit"), ("limit=٣", "limit"),
        ("cursor=x", "cursor"), ("status=opened", "status"), ("status=open,closed", "status"),
        ("status=Open", "status"), ("sortedTo=me", "sortedTo"), ("from=nobody", "from"), ("from=experts,all", "from"),
        ("madeBy=you", "madeBy"), ("since=yesterday", "since"), ("since=2026-01-31", "since"),
        ("since=2026-01-31T12:00:00", "since"), ("until=2026-13-31T12:00:00Z", "until"),
        ("until=2026-01-31T12:00:00+02:00", "until"), ("agentVersion=1", "agentVersion"),
        ("agentVersion=1&flowId=f", "agentVersion"), ("agentVersion=1&agentId=", "agentVersion"),
        ("scopeKind=galaxy", "scopeKind"), ("inherit=yes", "inherit"), ("inherit=1", "inherit"),
        ("runId=a%00b", "runId"), ("runId=a&runId=b", "runId"), ("nope=1", "nope"), ("run_id=x", "run_id"),
        ("Status=open", "Status"), ("projectId=p", "projectId"),
    ],
)  # fmt: skip
def test_a_malformed_parameter_is_named(admin: Client, query: str, name: str) -> None:
    answer = admin.get(f"/v1/corrections?{query}")
    assert (answer.status_code, answer.json["error"]["code"]) == (400, "bad-input")
    assert [issue["path"] for issue in answer.json["error"]["details"]["issues"]] == [f"/query/{name}"]
    assert name in answer.json["error"]["message"]


def test_each_comes_back_only_to_those_who_may_read_its_project(
    admin: Client, client_of: ClientOf, engine: Engine, tenant: str
) -> None:
    a_project(engine, tenant, "q", "o")
    a_project(engine, tenant, "r", "o")
    in_p, in_q, in_r = (recorded_id(admin, a_run(engine, tenant, project_id=p), **WRONG_ANSWER) for p in "pqr")
    for grants, readable in (
        ([], []),
        ([Grant("project", "read", "p")], [in_p]),
        ([Grant("project", "write", "p"), Grant("project", "admin", "r")], [in_r, in_p]),
        ([Grant("org", "read", "o")], [in_r, in_q]),
        ([Grant("org", "read", "o"), Grant("project", "read", "q"), Grant("project", "read", "p")],
         [in_r, in_q, in_p]),
        ([Grant("tenant", "read")], [in_r, in_q, in_p]),
        ([Grant("project", "read", "gone")], []),
    ):  # fmt: skip
        client = client_of(grants=grants)
        assert first_page(client) == readable
        assert first_page(client, "agentId=support&sortedTo=improve&status=open") == readable
        assert first_page(client, "scopeKind=project&scopeId=p") == [i for i in readable if i == in_p]
        assert first_page(client, "scopeKind=org&scopeId=o") == [i for i in readable if i != in_p]
        for correction in (in_p, in_q, in_r):
            status = 200 if correction in readable else 404
            assert client.get(f"/v1/corrections/{correction}").status_code == status
            assert client.get(f"/v1/corrections/{correction}/history").status_code == status
    stranger = client_of(role="admin", tenant_id=f"{tenant}-2")
    assert first_page(stranger) == []
    answer = stranger.get(f"/v1/corrections/{in_p}")
    assert (answer.status_code, answer.json["error"]["code"]) == (404, "correction-not-found")

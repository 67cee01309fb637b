"""GET /v1/corrections: each filter, permission, and pages."""

from __future__ import annotations

import itertools
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import Engine

from app.domain.model import Grant
from app.transaction import transaction
from tests.client import Client
from tests.conftest import ClientOf
from tests.factories import a_project, a_run

RIGHT = {"decisions": "right"}
WRONG_CALL = {"decisions": "wrong", "mustNotCall": ["x"]}
WRONG_ANSWER = {"answer": "wrong", "why": "so"}


def recorded(client: Client, run: str, **said: Any) -> str:
    answer = client.post("/v1/corrections", {"runId": run, **said})
    assert answer.status_code == 201, answer.text
    return str(answer.json["id"])


def listed(client: Client, query: str = "") -> list[str]:
    answer = client.get(f"/v1/corrections?{query}")
    assert answer.status_code == 200, answer.text
    return [row["id"] for row in answer.json["data"]]


def paged(client: Client, query: str, limit: int) -> list[str]:
    """All pages of a list, checking that each but the last is full."""
    seen: list[str] = []
    cursor = ""
    while True:
        answer = client.get(f"/v1/corrections?{query}&limit={limit}{cursor}").json
        seen += [row["id"] for row in answer["data"]]
        if not answer["hasMore"]:
            assert "nextCursor" not in answer
            return seen
        assert len(answer["data"]) == limit
        cursor = f"&cursor={answer['nextCursor']}"


def put_into(engine: Engine, tenant: str, correction: str, **columns: Any) -> None:
    """Move a correction to where this test needs it, past the services that would."""
    sets = ", ".join(f"{name} = %({name})s" for name in columns)
    with transaction(engine) as tx:
        tx.run(
            f"UPDATE corrections SET {sets} WHERE tenant_id = %(tenant)s AND id = %(id)s",
            {"tenant": tenant, "id": correction, **columns},
        )


def test_an_empty_list(admin: Client) -> None:
    assert admin.get("/v1/corrections").json == {"data": [], "hasMore": False}


def test_filters_by_what_was_corrected(admin: Client, engine: Engine, tenant: str) -> None:
    old = recorded(admin, a_run(engine, tenant, id="r1", subject_version="1"), **RIGHT)
    new = recorded(admin, a_run(engine, tenant, subject_version="2"), **RIGHT)
    flow = recorded(admin, a_run(engine, tenant, subject_kind="flow", subject_id="support"), **RIGHT)
    odd = recorded(admin, a_run(engine, tenant, subject_id="a,b/ü", subject_version="1,2"), **RIGHT)
    assert listed(admin) == [odd, flow, new, old]
    assert listed(admin, "runId=r1") == [old]
    assert listed(admin, "agentId=support") == [new, old]
    assert listed(admin, "agentId=support&agentVersion=2") == [new]
    assert listed(admin, "flowId=support") == [flow]
    assert listed(admin, f"agentId={quote('a,b/ü')}&agentVersion={quote('1,2')}") == [odd]
    assert listed(admin, "agentId=support&flowId=support") == []
    assert listed(admin, "runId=nope") == []


def test_filters_by_where_it_stands(admin: Client, engine: Engine, tenant: str) -> None:
    owner = recorded(admin, a_run(engine, tenant), **WRONG_CALL)
    improve = recorded(admin, a_run(engine, tenant), **WRONG_ANSWER)
    fixed = recorded(admin, a_run(engine, tenant), **RIGHT)
    unsorted = recorded(admin, a_run(engine, tenant), **RIGHT, participantId="u")
    being = recorded(admin, a_run(engine, tenant), **WRONG_ANSWER)
    put_into(engine, tenant, being, status="being-fixed")
    removed = recorded(admin, a_run(engine, tenant), **WRONG_ANSWER)
    put_into(engine, tenant, removed, status="removed", unregistered_at="2026-01-01T00:00:00Z")
    every = [being, unsorted, fixed, improve, owner]
    assert listed(admin) == every
    assert listed(admin, "status=") == every
    assert listed(admin, "status=fixed") == [fixed]
    assert listed(admin, "status=fixed,with-owner") == [fixed, owner]
    assert listed(admin, "status=fixed&status=with-owner,+fixed%20,") == [fixed, owner]
    assert listed(admin, "status=not-fixed") == [being, unsorted, improve, owner]
    assert listed(admin, "status=not-fixed,open,fixed") == every
    assert listed(admin, "status=removed") == [removed]
    assert listed(admin, "status=removed,open") == [removed, unsorted, improve]
    assert listed(admin, "sortedTo=none") == [unsorted, fixed]
    assert listed(admin, "sortedTo=improve") == [being, improve]
    assert listed(admin, "sortedTo=none&sortedTo=owner") == [unsorted, fixed, owner]
    assert listed(admin, "sortedTo=developer") == []
    assert listed(admin, "sortedTo=improve,owner&status=open,with-owner") == [improve, owner]


def test_a_superseded_one_is_never_listed(admin: Client, engine: Engine, tenant: str) -> None:
    run = a_run(engine, tenant)
    old = recorded(admin, run, **WRONG_CALL)
    new = recorded(admin, run, **RIGHT)
    assert listed(admin, "status=not-fixed,fixed,wont-fix,removed") == [new]
    assert listed(admin, f"runId={run}") == [new]
    assert admin.get(f"/v1/corrections/{old}").json["status"] == "with-owner"


def test_filters_by_who_made_it(admin: Client, client_of: ClientOf, engine: Engine, tenant: str) -> None:
    run = a_run(engine, tenant)
    group = admin.post(
        "/v1/corrector-groups",
        {"name": "g", "weight": 1, "scope": {"kind": "tenant"}, "assertableBy": {"principalKinds": ["user"]}},
    ).json["id"]
    plain = recorded(admin, run, **RIGHT)
    end_user = recorded(admin, run, **RIGHT, participantId="u,1")
    expert = recorded(admin, run, **RIGHT, correctorGroupId=group, participantId="u2")
    ben = client_of(role="admin", user="ben")
    bens = recorded(ben, run, **RIGHT)
    assert listed(admin, "from=experts") == [expert]
    assert listed(admin, "from=end-users") == [end_user]
    assert listed(admin, "from=all") == [bens, expert, end_user, plain]
    assert listed(admin, "madeBy=me") == [expert, end_user, plain]
    assert listed(ben, "madeBy=me") == [bens]
    assert listed(client_of(role="admin", user="x"), "madeBy=me") == []
    assert listed(admin, f"correctorGroupId={group}") == [expert]
    assert listed(admin, "participantId=u%2C1") == [end_user]
    assert listed(admin, "participantId=u2&from=experts&madeBy=me") == [expert]


def test_since_is_inclusive_and_until_exclusive(admin: Client, engine: Engine, tenant: str) -> None:
    ids = [recorded(admin, a_run(engine, tenant), **RIGHT) for _ in range(3)]
    for second, correction in enumerate(ids):
        put_into(engine, tenant, correction, created_at=f"2026-01-31T12:00:0{second}.500Z")
    assert listed(admin, "since=2026-01-31T12:00:01.500Z") == [ids[2], ids[1]]
    assert listed(admin, "until=2026-01-31T12:00:01.500Z") == [ids[0]]
    assert listed(admin, "since=2026-01-31T12:00:01.500Z&until=2026-01-31T12:00:01.501Z") == [ids[1]]
    assert listed(admin, "since=2026-01-31T14:00:01.500%2B02:00") == [ids[2], ids[1]]
    assert listed(admin, "since=2026-01-31T12:00:01.5004Z") == [ids[2]]
    assert listed(admin, "since=9999-12-31T23:59:59Z") == []
    assert listed(admin, "until=0001-01-01T00:00:00Z") == []


def test_a_time_that_was_shown_works_as_a_filter(admin: Client, engine: Engine, tenant: str) -> None:
    correction = recorded(admin, a_run(engine, tenant), **RIGHT)
    shown = admin.get("/v1/corrections").json["data"][0]["createdAt"]
    assert listed(admin, f"since={shown}") == [correction]
    assert listed(admin, f"until={shown}") == []


def test_scopes_narrow(admin: Client, engine: Engine, tenant: str) -> None:
    a_project(engine, tenant, "q", "o")
    a_project(engine, tenant, "r", "o")
    in_p, in_q, in_r = (recorded(admin, a_run(engine, tenant, project_id=p), **RIGHT) for p in "pqr")
    assert listed(admin, "scopeKind=tenant&inherit=true") == [in_r, in_q, in_p]
    assert listed(admin, "scopeKind=project&scopeId=q&inherit=false") == [in_q]
    assert listed(admin, "scopeKind=org&scopeId=o") == [in_r, in_q]
    assert listed(admin, "scopeKind=org&scopeId=p") == []
    assert listed(admin, "scopeKind=project&scopeId=nope") == []
    assert listed(admin, "inherit=true") == [in_r, in_q, in_p]


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
    in_p, in_q, in_r = (recorded(admin, a_run(engine, tenant, project_id=p), **WRONG_ANSWER) for p in "pqr")
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
        assert listed(client) == readable
        assert listed(client, "agentId=support&sortedTo=improve&status=open") == readable
        assert listed(client, "scopeKind=project&scopeId=p") == [i for i in readable if i == in_p]
        assert listed(client, "scopeKind=org&scopeId=o") == [i for i in readable if i != in_p]
        for correction in (in_p, in_q, in_r):
            status = 200 if correction in readable else 404
            assert client.get(f"/v1/corrections/{correction}").status_code == status
            assert client.get(f"/v1/corrections/{correction}/history").status_code == status
    stranger = client_of(role="admin", tenant_id=f"{tenant}-2")
    assert listed(stranger) == []
    answer = stranger.get(f"/v1/corrections/{in_p}")
    assert (answer.status_code, answer.json["error"]["code"]) == (404, "correction-not-found")


def test_pages_hold_every_row_once_while_rows_come_and_go(
    admin: Client, client_of: ClientOf, engine: Engine, tenant: str
) -> None:
    ids = [recorded(admin, a_run(engine, tenant, project_id="pq"[n % 2]), **WRONG_ANSWER) for n in range(11)]
    for correction in ids:  # All in one moment: only the id tells them apart.
        put_into(engine, tenant, correction, created_at="2026-01-31T12:00:00Z")
    both = client_of(grants=[Grant("project", "read", "p"), Grant("project", "read", "q")])
    for client in (admin, both):
        assert paged(client, "", 3) == ids[::-1]
        assert paged(client, "status=not-fixed&sortedTo=improve,owner", 4) == ids[::-1]
        assert paged(client, "agentId=support", 11) == ids[::-1]
    first = admin.get("/v1/corrections?limit=4").json
    recorded(admin, a_run(engine, tenant), **RIGHT)
    put_into(engine, tenant, ids[10], status="removed", unregistered_at="2026-02-01T00:00:00Z")
    put_into(engine, tenant, ids[7], status="removed", unregistered_at="2026-02-01T00:00:00Z")
    put_into(engine, tenant, ids[4], status="wont-fix")
    rest = admin.get(f"/v1/corrections?limit=100&cursor={first['nextCursor']}").json
    assert [row["id"] for row in rest["data"]] == ids[6::-1]


def test_a_cursor_is_of_its_list_filters_and_caller(
    admin: Client, client_of: ClientOf, engine: Engine, tenant: str
) -> None:
    for _ in range(3):
        recorded(admin, a_run(engine, tenant), **WRONG_ANSWER)
    cursor = admin.get("/v1/corrections?status=open&limit=1").json["nextCursor"]
    assert len(listed(admin, f"status=open&limit=2&cursor={cursor}")) == 2
    for client, query in (
        (admin, f"cursor={cursor}"),
        (admin, f"status=open&agentId=support&cursor={cursor}"),
        (client_of(role="admin", user="ben"), f"status=open&cursor={cursor}"),
        (admin, f"status=open&cursor={cursor[:-2]}"),
        (admin, f"status=open&cursor={cursor}A"),
    ):
        answer = client.get(f"/v1/corrections?{query}")
        assert (answer.status_code, answer.json["error"]["code"]) == (400, "bad-input")


def test_a_cursor_takes_the_same_filter_in_another_order(admin: Client, engine: Engine, tenant: str) -> None:
    ids = [recorded(admin, a_run(engine, tenant), **WRONG_ANSWER) for _ in range(2)]
    first = admin.get("/v1/corrections?status=open,fixed&sortedTo=owner,improve&limit=1").json
    same = "status=fixed&status=open&sortedTo=improve,owner,improve"
    rest = admin.get(f"/v1/corrections?{same}&cursor={first['nextCursor']}").json
    assert [row["id"] for row in first["data"] + rest["data"]] == ids[::-1]


STATUSES = ["open", "being-fixed", "fixed", "wont-fix"]


@pytest.fixture
def corpus(admin: Client, engine: Engine, tenant: str) -> list[dict[str, Any]]:
    """24 corrections over two projects, three versions and four statuses, as the list shows them, newest first."""
    kinds = itertools.cycle([RIGHT, WRONG_ANSWER, {**RIGHT, "participantId": "u"}, WRONG_ANSWER, WRONG_CALL])
    for n in range(24):
        run = a_run(engine, tenant, project_id="pq"[n % 2], subject_version="123"[n % 3])
        correction = recorded(admin, run, **next(kinds))
        if n % 3 == 0:
            put_into(engine, tenant, correction, status=STATUSES[n % 4], sorted_to=None)
    rows: list[dict[str, Any]] = admin.get("/v1/corrections?limit=100").json["data"]
    assert len(rows) == 24
    return rows


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(data=st.data())
def test_any_mix_of_filters_is_what_a_plain_reading_of_them_says(
    data: st.DataObject, admin: Client, corpus: list[dict[str, Any]], client_of: ClientOf
) -> None:
    statuses = data.draw(st.lists(st.sampled_from(["not-fixed", "with-owner", *STATUSES]), max_size=3))
    queues = data.draw(st.lists(st.sampled_from(["none", "improve", "owner", "developer"]), max_size=2))
    version = data.draw(st.sampled_from([None, "1", "2"]))
    project = data.draw(st.sampled_from([None, "p", "q"]))
    since, until = (data.draw(st.sampled_from([None, *corpus[::5]])) for _ in range(2))
    made_from = data.draw(st.sampled_from([None, "end-users", "experts", "all"]))
    readable = data.draw(st.sampled_from([None, ["p"], ["p", "q"]]))

    def fits(row: dict[str, Any]) -> bool:
        named = {s for word in statuses for s in ([*STATUSES[:2], "with-owner"] if word == "not-fixed" else [word])}
        return (
            (not named or row["status"] in named)
            and (not queues or row.get("sortedTo", "none") in queues)
            and (version is None or row["subject"]["version"] == version)
            and (project is None or row["projectId"] == project)
            and (since is None or row["createdAt"] >= since["createdAt"])
            and (until is None or row["createdAt"] < until["createdAt"])
            and {"end-users": "participantId" in row, "experts": False}.get(made_from or "", True)
            and (readable is None or row["projectId"] in readable)
        )

    query = [("status", ",".join(statuses)), ("sortedTo", ",".join(queues)), ("from", made_from)]
    query += [("agentId", "support"), ("agentVersion", version)] if version else []
    query += [("scopeKind", "project"), ("scopeId", project)] if project else []
    query += [("since", since and since["createdAt"]), ("until", until and until["createdAt"])]
    client = admin if readable is None else client_of(grants=[Grant("project", "read", p) for p in readable])
    found = paged(client, "&".join(f"{name}={value}" for name, value in query if value), 7)
    assert found == [row["id"] for row in corpus if fits(row)]

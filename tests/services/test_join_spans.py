"""Spans join their run in any order, at once and late; not once it was corrected, erased, or somebody else's."""

from __future__ import annotations

import random
import uuid
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import Engine

from app.domain.model import Grant
from app.services.join_spans import PATIENCE_MINUTES, settle_next
from app.store import retention, spans
from app.store.engine import reading
from app.transaction import transaction
from tests.api.otlp import JSON, PROTOBUF, a_span, a_tool_span, a_trace, an_agent_span, export, request_of, turned_away
from tests.client import Client
from tests.erasing import dump, erased
from tests.factories import a_project

MARKER = "MARKER-5d1e07"
LOCAL = 0x100
"""Flags of a span whose sender says that its parent is of the same process."""


@pytest.fixture
def client(admin: Client, engine: Engine, tenant: str) -> Client:
    a_project(engine, tenant)
    return admin


def sent(client: Client, *batch: dict[str, Any], form: str = JSON) -> tuple[int, str]:
    return turned_away(export(client, request_of(*batch), form))


def run_of(client: Client, trace: str) -> dict[str, Any]:
    """The run but for when it came."""
    answer = client.get(f"/v1/runs/{trace}")
    assert answer.status_code == 200, answer.text
    return {name: value for name, value in answer.json.items() if name not in ("id", "createdAt", "updatedAt")}


def correct(client: Client, run_id: str) -> str:
    answer = client.post("/v1/corrections", {"runId": run_id, "answer": "wrong", "why": "no"})
    assert answer.status_code == 201, answer.text
    return str(answer.json["id"])


def a_whole_trace(trace: str) -> list[dict[str, Any]]:
    """Within a request to a server: an agent with two tools, of which one asks another agent with a tool of its own."""
    inner = an_agent_span(trace, "00000000000000a2", "00000000000000b2", **{"gen_ai.agent.name": "inner"})
    return [
        a_span(trace, "00000000000000f1", took=20, says={"http.request.method": "POST"}),
        an_agent_span(trace, parent="00000000000000f1", **{"gen_ai.conversation.id": "chat"}) | {"flags": LOCAL},
        a_tool_span(trace),
        a_tool_span(trace, "00000000000000b2", at=2) | {"flags": LOCAL},
        inner | {"flags": LOCAL},
        a_tool_span(trace, "00000000000000b3", "00000000000000a2", at=4) | {"flags": LOCAL},
    ]


@pytest.mark.parametrize("seed", range(8))
def test_any_order_split_and_repetition_gives_the_same_run(client: Client, seed: int) -> None:
    chance, reference, trace = random.Random(seed), a_trace(), a_trace()
    assert sent(client, *a_whole_trace(reference)) == (0, "")
    arriving = a_whole_trace(trace)
    arriving += chance.choices(arriving, k=chance.randrange(6))
    chance.shuffle(arriving)
    while arriving:
        size = chance.randint(1, 3)
        batch, arriving = arriving[:size], arriving[size:]
        assert sent(client, *batch, form=chance.choice([JSON, PROTOBUF])) == (0, "")
    assert run_of(client, trace) == run_of(client, reference)
    assert len(run_of(client, trace)["calls"]) == 3


def test_there_is_no_run_before_the_outermost_span(client: Client) -> None:
    trace = a_trace()
    around, outer, *inside = a_whole_trace(trace)
    assert sent(client, *inside) == (0, "")
    assert client.get(f"/v1/runs/{trace}").status_code == 404
    assert sent(client, outer) == (0, "")
    assert client.get(f"/v1/runs/{trace}").status_code == 404, "a span of its own process is around it"
    assert sent(client, around) == (0, "")
    assert run_of(client, trace)["subject"]["id"] == "support"


def test_late_spans_join_until_the_run_is_corrected(client: Client) -> None:
    trace = a_trace()
    agent, first, second, third = (
        an_agent_span(trace),
        a_tool_span(trace),
        a_tool_span(trace, "00000000000000b2", at=2),
        a_tool_span(trace, "00000000000000b3", at=3),
    )
    assert sent(client, agent) == (0, "")
    assert sent(client, first) == (0, "")
    assert len(run_of(client, trace)["calls"]) == 1
    correction = correct(client, trace)
    before = run_of(client, trace)
    rejected, why = sent(client, agent, first, second, third)
    assert (rejected, why.partition(":")[0]) == (2, "run-already-terminal"), "what is known already is taken again"
    assert sent(client, agent, first) == (0, "")
    assert run_of(client, trace) == before
    assert client.post(f"/v1/corrections/{correction}/remove").status_code == 200
    assert sent(client, third)[0] == 1, "its copy is of what it was"


def test_a_run_that_was_put_stays_as_it_is(client: Client) -> None:
    trace = a_trace()
    subject = {"kind": "agent", "id": "x", "version": "1"}
    body = {"projectId": "p", "subject": subject, "status": "running", "input": 1}
    assert client.put(f"/v1/runs/{trace}", body).status_code == 201
    rejected, why = sent(client, an_agent_span(trace), a_tool_span(trace))
    assert (rejected, why.partition(":")[0]) == (2, "run-already-terminal")
    assert run_of(client, trace)["subject"]["id"] == "x"
    other = a_trace()
    assert sent(client, an_agent_span(other)) == (0, "")
    assert client.put(f"/v1/runs/{other}", body).json["error"]["code"] == "run-already-terminal"
    assert sent(client, a_tool_span(other)) == (0, "")


def test_a_put_between_the_spans_is_not_overwritten(client: Client) -> None:
    trace = a_trace()
    assert sent(client, a_tool_span(trace)) == (0, "")
    body = {"projectId": "p", "subject": {"kind": "agent", "id": "x", "version": "1"}, "status": "running", "input": 1}
    assert client.put(f"/v1/runs/{trace}", body).status_code == 201
    assert sent(client, an_agent_span(trace))[0] == 1
    assert run_of(client, trace)["subject"]["id"] == "x"


def test_another_projects_spans_of_a_trace_are_another_matter(client: Client, engine: Engine, tenant: str) -> None:
    a_project(engine, tenant, "q")
    trace = a_trace()
    around = a_span(trace, "00000000000000f1", took=20, says={"http.request.method": "GET"})
    assert turned_away(export(client, request_of(around, a_tool_span(trace), project="q"))) == (0, "")
    assert sent(client, an_agent_span(trace, parent="00000000000000f1")) == (0, "")
    run = run_of(client, trace)
    assert (run["projectId"], "calls" in run) == ("p", False)


def test_a_run_is_of_one_project(client: Client, engine: Engine, tenant: str) -> None:
    a_project(engine, tenant, "q")
    trace = a_trace()
    assert sent(client, an_agent_span(trace)) == (0, "")
    rejected, why = turned_away(export(client, request_of(a_tool_span(trace), project="q")))
    assert (rejected, why.partition(":")[0]) == (1, "run-project-mismatch")
    assert "calls" not in run_of(client, trace)


def test_another_tenants_trace_of_the_same_id_is_another(client: Client, engine: Engine, client_of: Any) -> None:
    other_tenant, trace = f"t-{uuid.uuid4().hex[:8]}", a_trace()
    other = client_of(role="admin", tenant_id=other_tenant)
    a_project(engine, other_tenant)
    assert sent(client, an_agent_span(trace)) == (0, "")
    assert sent(other, a_tool_span(trace)) == (0, "")
    assert other.get(f"/v1/runs/{trace}").status_code == 404
    assert "calls" not in run_of(client, trace)


def test_batches_of_one_trace_at_once(client: Client, flask_app: Flask) -> None:
    trace = a_trace()
    batches = [[a_tool_span(trace, f"{at:016x}", at=at)] for at in range(1, 17)] + [[an_agent_span(trace)]] * 2
    with ThreadPoolExecutor(6) as pool:
        clients = [Client(flask_app, client.secret, client.caller) for _ in batches]
        assert [*pool.map(lambda pair: sent(pair[0], *pair[1]), zip(clients, batches, strict=True))] == [(0, "")] * 18
    run = run_of(client, trace)
    assert len(run["calls"]) == 16


def test_recording_beside_late_spans_copies_a_run_that_stays(client: Client, flask_app: Flask) -> None:
    for _ in range(5):
        trace = a_trace()
        assert sent(client, an_agent_span(trace)) == (0, "")
        late = [[a_tool_span(trace, f"{at:016x}", at=at)] for at in range(1, 7)]
        with ThreadPoolExecutor(4) as pool:
            clients = [Client(flask_app, client.secret, client.caller) for _ in late]
            results = [pool.submit(partial(sent, each, *batch)) for each, batch in zip(clients, late, strict=True)]
            correct(Client(flask_app, client.secret, client.caller), trace)
            rejected = sum(result.result()[0] for result in results)
        assert len(run_of(client, trace).get("calls", [])) == 6 - rejected


def test_what_waits_for_a_span_that_never_comes_becomes_a_run(client: Client, engine: Engine) -> None:
    trace = a_trace()
    agent = an_agent_span(trace, parent="00000000000000ff") | {"flags": LOCAL}
    assert sent(client, agent, a_tool_span(trace)) == (0, "")
    with transaction(engine) as tx:
        tx.run("UPDATE traces SET waits = false WHERE id <> %s -- every tenant", (trace,))
        assert not settle_next(tx)
        minutes = PATIENCE_MINUTES + 1
        tx.run("UPDATE traces SET changed_at = now() - %s * interval '1 minute' WHERE id = %s", (minutes, trace))
    with transaction(engine) as tx:
        assert settle_next(tx)
        assert not settle_next(tx)
    assert run_of(client, trace)["subject"]["id"] == "support"
    assert sent(client, a_tool_span(trace, "00000000000000b2", at=2)) == (0, "")
    assert len(run_of(client, trace)["calls"]) == 2
    around = an_agent_span(trace, "00000000000000ff", **{"gen_ai.agent.name": "outer"})
    assert sent(client, around) == (0, "")
    assert run_of(client, trace)["subject"]["id"] == "outer"


def test_erasing_a_run_clears_its_spans_and_lets_none_in(client: Client, engine: Engine, database_url: str) -> None:
    trace = a_trace()
    agent = an_agent_span(trace, **{"input.value": MARKER, "gen_ai.conversation.id": f"chat {trace}"})
    tool = a_tool_span(trace) | {"attributes": a_tool_span(trace, **{"gen_ai.x": MARKER})["attributes"]}
    assert sent(client, agent, tool) == (0, "")
    assert MARKER in dump(database_url)
    assert erased(engine, client, runId=trace)["counts"]["runs"] == 1
    assert MARKER not in dump(database_url)
    rejected, why = sent(client, agent, tool)
    assert (rejected, why.partition(":")[0]) == (2, "run-erased")
    assert run_of(client, trace)["input"] is None


@pytest.mark.parametrize("by", ["run", "conversation"])
def test_erasing_what_is_no_run_yet(client: Client, engine: Engine, database_url: str, by: str) -> None:
    trace, conversation = a_trace(), f"chat {uuid.uuid4().hex}"
    tool = a_tool_span(trace, **{"gen_ai.conversation.id": conversation, "gen_ai.x": MARKER})
    assert sent(client, tool) == (0, "")
    target = {"runId": trace} if by == "run" else {"conversationId": conversation}
    assert erased(engine, client, **target)["counts"]["runs"] == 1
    assert MARKER not in dump(database_url)
    assert sent(client, tool, an_agent_span(trace))[0] == 2
    assert run_of(client, trace)["status"] == "cancelled"


def test_who_may_not_erase_a_run_may_not_erase_its_spans(client: Client, client_of: Any) -> None:
    trace = a_trace()
    assert sent(client, a_tool_span(trace)) == (0, "")
    writer = client_of(grants=[Grant("project", "write", "p")])
    assert writer.post("/v1/erasures", {"runId": trace}).json["error"]["code"] == "permission-denied"
    assert client_of().post("/v1/erasures", {"runId": trace}).json["error"]["code"] == "run-not-found"


def test_retention_takes_spans_with_their_run_and_those_without_one(client: Client, engine: Engine) -> None:
    assert client.put("/v1/projects/p", {"retention": {"runsDays": 3}}).status_code == 200
    old, young, loose, fresh = a_trace(), a_trace(), a_trace(), a_trace()
    for trace in (old, young):
        assert sent(client, an_agent_span(trace)) == (0, "")
    for trace in (loose, fresh):
        assert sent(client, a_tool_span(trace)) == (0, "")
    with transaction(engine) as tx:
        tx.run("UPDATE runs SET ended_at = now() - interval '4 days' WHERE id = %s", (old,))
        tx.run("UPDATE traces SET changed_at = now() - interval '4 days' WHERE id = %s", (loose,))
        retention.purge_runs(tx)
        spans.purge_loose(tx)
    with reading(engine) as db:
        asked = "SELECT array_agg(DISTINCT trace_id) FROM spans WHERE trace_id = ANY(%s)"
        assert set(db.value(asked, ([old, young, loose, fresh],))) == {young, fresh}
    assert client.get(f"/v1/runs/{old}").status_code == 404
    assert sent(client, an_agent_span(old)) == (0, "")


def test_the_run_is_known_as_a_put_would_make_it(client: Client) -> None:
    trace, deployed = a_trace(), {"subject": {"kind": "agent", "id": "support"}, "version": "9"}
    assert client.post("/v1/deploys", deployed).status_code == 202
    assert sent(client, an_agent_span(trace)) == (0, "")
    (running,) = client.get("/v1/projects/p/running").json
    assert (running["subject"]["id"], running["version"]) == ("support", "9")
    listed = client.get("/v1/runs?projectId=p&status=completed&version=3.1").json["data"]
    assert [run["id"] for run in listed] == [trace]

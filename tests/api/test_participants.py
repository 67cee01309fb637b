"""Participants' tokens: one participant's correction of one run, in a browser, and nothing else."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import Engine

from app.config import Settings
from app.domain.model import Grant
from app.services.issue_tokens import Wanted, issue_token
from app.store import participants
from app.store.engine import reading
from app.store.tokens import digest
from app.transaction import transaction
from app.wsgi import create_app
from tests.api.test_edge import refusal
from tests.client import Client
from tests.conftest import ClientOf
from tests.factories import a_correction, a_run

TOKENS = "/v1/participant-tokens"
WRONG = {"answer": "wrong", "shouldSay": "Friday."}
DENIED = (403, "permission-denied")


def token_body(run_id: str, participant_id: str = "visitor", seconds: Any = 600) -> dict[str, Any]:
    return {"runId": run_id, "participantId": participant_id, "ttlSeconds": seconds}


def visitor_of(maker: Client, run_id: str, participant_id: str = "visitor", seconds: int = 600) -> Client:
    made = maker.post(TOKENS, token_body(run_id, participant_id, seconds))
    assert made.status_code == 201, made.text
    return Client(maker.flask, made.json["token"], None)


@pytest.fixture
def run(engine: Engine, tenant: str) -> str:
    return a_run(engine, tenant)


@pytest.fixture
def visitor(admin: Client, run: str) -> Client:
    return visitor_of(admin, run)


# Making one


def test_it_is_shown_once_and_only_its_hash_is_kept(admin: Client, run: str, engine: Engine) -> None:
    before = datetime.now(UTC)
    made = admin.post(TOKENS, token_body(run, seconds=60), headers={"Idempotency-Key": "k"})
    assert made.status_code == 201
    assert set(made.json) == {"token", "expiresAt"}
    left = datetime.fromisoformat(made.json["expiresAt"]) - before
    assert timedelta(seconds=59) < left < timedelta(seconds=70)
    with reading(engine) as db:
        kept = db.rows("SELECT p::text FROM participant_tokens p WHERE sha256 = %s", (digest(made.json["token"]),))
    assert len(kept) == 1
    assert made.json["token"] not in kept[0][0]
    again = admin.post(TOKENS, token_body(run, seconds=60), headers={"Idempotency-Key": "k"})
    assert refusal(again) == (409, "idempotency-key-replay-withheld")


@pytest.mark.parametrize("seconds", [0, -1, 86_401, 1.5, "60", True, None])
def test_how_long_it_cannot_be(admin: Client, run: str, seconds: Any) -> None:
    refused = admin.post(TOKENS, token_body(run, seconds=seconds))
    assert refusal(refused) == (400, "bad-input")
    assert [issue["path"] for issue in refused.json["error"]["details"]["issues"]] == ["/ttlSeconds"]


def test_it_needs_all_three(admin: Client) -> None:
    refused = admin.post(TOKENS, {"token": "x"})
    assert refusal(refused) == (400, "unknown-field")
    paths = {issue["path"] for issue in refused.json["error"]["details"]["issues"]}
    assert paths == {"/runId", "/participantId", "/ttlSeconds", "/token"}


def test_the_run_decides_as_when_recording(admin: Client, client_of: ClientOf, engine: Engine, tenant: str) -> None:
    assert refusal(admin.post(TOKENS, token_body("none"))) == (404, "run-not-found")
    run = a_run(engine, tenant)
    reader = client_of(grants=[Grant("project", "read", "p")])
    assert refusal(reader.post(TOKENS, token_body(run))) == DENIED
    assert refusal(client_of().post(TOKENS, token_body(run))) == DENIED
    with transaction(engine) as tx:
        tx.run("UPDATE runs SET erased_at = now() WHERE tenant_id = %s AND id = %s", (tenant, run))
    assert refusal(admin.post(TOKENS, token_body(run))) == (410, "run-erased")


def test_it_may_be_made_while_the_run_goes_on(admin: Client, engine: Engine, tenant: str) -> None:
    run = a_run(engine, tenant, status="running", output=None)
    visitor = visitor_of(admin, run)
    assert refusal(visitor.post("/v1/corrections", {"runId": run, **WRONG})) == (409, "run-not-finished")


def test_it_does_not_outlive_the_token_that_made_it(flask_app: Flask, engine: Engine, tenant: str, run: str) -> None:
    soon = datetime.now(UTC).replace(microsecond=0) + timedelta(minutes=1)
    with transaction(engine) as tx:
        _, secret = issue_token(tx, tenant, Wanted("short", "admin", expires_at=soon))
    made = Client(flask_app, secret, None).post(TOKENS, token_body(run, seconds=86_400))
    assert datetime.fromisoformat(made.json["expiresAt"]) == soon


# Recording


def test_it_records_as_its_maker_for_its_participant(client_of: ClientOf, run: str) -> None:
    maker = client_of(grants=[Grant("project", "write", "p")], user="shop")
    visitor = visitor_of(maker, run)
    first = visitor.post("/v1/corrections", {"runId": run, **WRONG})
    assert first.status_code == 201
    assert first.json["madeBy"] == {"kind": "user", "id": "shop"}
    assert first.json["participantId"] == "visitor"
    assert (first.json["status"], first.json.get("sortedTo")) == ("open", None)
    second = visitor.post("/v1/corrections", {"runId": run, "participantId": "visitor", "answer": "right"})
    assert second.status_code == 201
    assert visitor.get(f"/v1/corrections/{first.json['id']}").json["supersededBy"] == second.json["id"]
    shown = maker.get(f"/v1/corrections?runId={run}&from=end-users").json["data"]
    assert [row["id"] for row in shown] == [second.json["id"]]


def test_of_no_other_run_and_for_nobody_else(visitor: Client, run: str, engine: Engine, tenant: str) -> None:
    for body in (
        {"runId": a_run(engine, tenant)},
        {"runId": "none"},
        {"runId": run, "participantId": "another"},
        {"runId": run, "participantId": "Visitor"},
    ):
        assert refusal(visitor.post("/v1/corrections", body | WRONG)) == DENIED


def test_under_no_corrector_group(admin: Client, visitor: Client, run: str) -> None:
    group = admin.post("/v1/corrector-groups", {"name": "all", "weight": 9, "scope": {"kind": "tenant"}}).json["id"]
    for group_id in (group, "none"):
        refused = visitor.post("/v1/corrections", {"runId": run, "correctorGroupId": group_id, **WRONG})
        assert refusal(refused) == (403, "corrector-group-not-allowed")


def test_within_what_its_maker_may_do_now(client_of: ClientOf, admin: Client, run: str) -> None:
    admin.put("/v1/projects/p", {"orgId": "o"})
    visitor = visitor_of(client_of(grants=[Grant("org", "write", "o")]), run)
    recorded = visitor.post("/v1/corrections", {"runId": run, **WRONG}).json["id"]
    admin.put("/v1/projects/p", {"orgId": None})
    assert refusal(visitor.post("/v1/corrections", {"runId": run, **WRONG})) == DENIED
    assert refusal(visitor.get(f"/v1/corrections/{recorded}")) == DENIED
    assert visitor.get("/v1/corrections").json["data"] == []


def test_idempotency_keys_are_each_participants_own(admin: Client, run: str) -> None:
    ann, bob, body = visitor_of(admin, run, "ann"), visitor_of(admin, run, "bob"), {"runId": run, **WRONG}
    headers = {"Idempotency-Key": "k"}
    of_ann = ann.post("/v1/corrections", body, headers=headers)
    of_bob = bob.post("/v1/corrections", body, headers=headers)
    of_maker = admin.post("/v1/corrections", body, headers=headers)
    assert [a.json.get("participantId") for a in (of_ann, of_bob, of_maker)] == ["ann", "bob", None]
    assert all("X-Idempotent-Replay" not in answer.headers for answer in (of_ann, of_bob, of_maker))
    again = visitor_of(admin, run, "ann").post("/v1/corrections", body, headers=headers)
    assert (again.data, again.headers["X-Idempotent-Replay"]) == (of_ann.data, "true")


# Reading


def test_it_reads_its_own_without_the_copy_and_the_staffs_words(admin: Client, visitor: Client, run: str) -> None:
    args = '{"n":107505301260286111,"x":1.10}'
    body = f'{{"runId":"{run}","decisions":"wrong","shouldCall":[{{"tool":"t","args":{args}}}],"why":"no \\"é\\""}}'
    recorded = visitor.send("POST", "/v1/corrections", data=body.encode())
    correction_id = recorded.json["id"]
    changed = admin.patch(
        f"/v1/corrections/{correction_id}",
        {"sortedTo": "owner", "reason": "secret", "note": "secret", "link": {"kind": "improve-run", "id": "secret"}},
    )
    assert changed.status_code == 200
    shown = visitor.get(f"/v1/corrections/{correction_id}")
    assert shown.status_code == 200
    assert "secret" not in shown.text
    assert "run" not in shown.json
    assert args in shown.text
    assert (shown.json["why"], shown.json["status"]) == ('no "é"', "with-owner")
    assert visitor.get("/v1/corrections").json == {"data": [shown.json], "hasMore": False}
    unchanged = visitor.get(f"/v1/corrections/{correction_id}", headers={"If-None-Match": shown.headers["ETag"]})
    assert unchanged.status_code == 304
    assert "secret" in admin.get(f"/v1/corrections/{correction_id}").text


def test_it_reads_nobody_elses(admin: Client, visitor: Client, run: str, engine: Engine, tenant: str) -> None:
    theirs = visitor_of(admin, run, "another").post("/v1/corrections", {"runId": run, **WRONG}).json["id"]
    makers = admin.post("/v1/corrections", {"runId": run, **WRONG}).json["id"]
    elsewhere = a_run(engine, tenant)
    other_run = visitor_of(admin, elsewhere).post("/v1/corrections", {"runId": elsewhere, **WRONG}).json["id"]
    another_maker = a_correction(engine, tenant, run_id=run, participant_id="visitor")
    for correction_id in (theirs, makers, other_run, another_maker, "none"):
        assert refusal(visitor.get(f"/v1/corrections/{correction_id}")) == DENIED
    mine = visitor.post("/v1/corrections", {"runId": run, **WRONG}).json["id"]
    for query in ("", f"?runId={run}", f"?runId={run}&participantId=visitor", "?scopeKind=tenant&status=open"):
        assert [row["id"] for row in visitor.get(f"/v1/corrections{query}").json["data"]] == [mine]
    for query in (f"?runId={elsewhere}", "?participantId=another", "?runId=none"):
        assert refusal(visitor.get(f"/v1/corrections{query}")) == DENIED


# Anything else


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "/v1/me"), ("GET", "/v1/nope"), ("DELETE", "/v1/corrections"), ("POST", "/v1/runs/import"), ("GET", "/x")],
)
def test_any_other_use_is_denied(visitor: Client, method: str, path: str) -> None:
    assert refusal(visitor.send(method, path)) == DENIED


def test_it_makes_no_token(visitor: Client, run: str) -> None:
    assert refusal(visitor.post(TOKENS, token_body(run))) == DENIED


# Its end


def expire(engine: Engine, table: str, column: str, secret: str | None) -> None:
    with transaction(engine) as tx:
        assert tx.run(f"UPDATE {table} SET {column} = now() WHERE sha256 = %s", (digest(secret or ""),)) == 1


def test_it_ends_with_its_time_and_its_maker(client_of: ClientOf, run: str, engine: Engine) -> None:
    for table, column, code in (
        ("participant_tokens", "expires_at", "auth-expired"),
        ("tokens", "expires_at", "auth-expired"),
        ("tokens", "revoked_at", "auth-revoked"),
    ):
        maker = client_of(role="admin")
        visitor = visitor_of(maker, run)
        assert visitor.get("/v1/corrections").status_code == 200
        expire(engine, table, column, (visitor if table == "participant_tokens" else maker).secret)
        for path in ("/v1/corrections", "/v1/me"):
            assert refusal(visitor.get(path)) == (401, code)


def test_revoking_the_maker_over_the_api_ends_it_at_once(admin: Client, client_of: ClientOf, run: str) -> None:
    maker = client_of(role="admin")
    visitor = visitor_of(maker, run)
    assert maker.caller is not None
    admin.post(f"/v1/tokens/{maker.caller.token_id}/revoke")
    assert refusal(visitor.post("/v1/corrections", {"runId": run, **WRONG})) == (401, "auth-revoked")


def test_long_expired_ones_are_purged(admin: Client, run: str, engine: Engine) -> None:
    visitors = [visitor_of(admin, run, name) for name in ("old", "just", "good")]
    for visitor, ago in zip(visitors, ("2 hours", "1 minute", "-1 hour"), strict=True):
        with transaction(engine) as tx:
            sql = "UPDATE participant_tokens SET expires_at = now() - %s::interval WHERE sha256 = %s"
            tx.run(sql, (ago, digest(visitor.secret or "")))
    with transaction(engine) as tx:
        assert participants.purge(tx) is False
    answers = [refusal(visitor.get("/v1/me"))[1] for visitor in visitors]
    assert answers == ["auth-missing", "auth-expired", "permission-denied"]


def test_a_forgotten_participant_has_no_token(admin: Client, run: str, engine: Engine, tenant: str) -> None:
    ann, bob = visitor_of(admin, run, "ann"), visitor_of(admin, run, "bob")
    with transaction(engine) as tx:
        assert participants.forget(tx, tenant, "ann") == 1
    assert refusal(ann.get("/v1/corrections")) == (401, "auth-missing")
    assert bob.get("/v1/corrections").status_code == 200


# At the edge


def test_an_operators_own_token_may_look_like_one(flask_app: Flask, engine: Engine, tenant: str) -> None:
    with transaction(engine) as tx:
        issue_token(tx, tenant, Wanted("odd", "admin"), secret=f"cgp_{tenant}")
    assert Client(flask_app, f"cgp_{tenant}", None).get("/v1/me").status_code == 200


def test_each_has_a_rate_of_its_own(settings: Settings, admin: Client, run: str) -> None:
    one, other = visitor_of(admin, run), visitor_of(admin, run)
    app = create_app(dataclasses.replace(settings, rate_limit="2/hour"))
    answers = [Client(app, token.secret, None).get("/v1/corrections").status_code for token in [one, one, one, other]]
    assert answers == [200, 200, 429, 200]


def test_a_browser_reads_why_it_was_denied(settings: Settings, visitor: Client) -> None:
    origin = "https://shop.example"
    app = create_app(dataclasses.replace(settings, cors_origins=(origin,)))
    for path in ("/v1/me", "/v1/corrections?runId=none"):
        refused = Client(app, visitor.secret, None).get(path, headers={"Origin": origin})
        assert refusal(refused) == DENIED
        assert refused.headers["Access-Control-Allow-Origin"] == origin

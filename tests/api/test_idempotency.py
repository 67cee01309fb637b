from __future__ import annotations

import dataclasses
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg2
import pytest
from sqlalchemy import Engine

from app.api.idempotency import Keyed, once
from app.config import Settings
from app.transaction import transaction
from app.wsgi import create_app
from tests.api.test_edge import GROUPS, NEW, locked, refusal
from tests.client import Client
from tests.conftest import ClientOf
from tests.factories import a_run

KEY = {"Idempotency-Key": "k"}


def names(admin: Client) -> list[str]:
    return [row["name"] for row in admin.get(GROUPS).json["data"]]


def test_a_kept_answer_is_replayed_byte_for_byte(admin: Client) -> None:
    first = admin.post(GROUPS, NEW, headers=KEY)
    again = admin.post(GROUPS + "?", NEW, headers=KEY)
    assert (again.status_code, again.data, again.content_type) == (first.status_code, first.data, first.content_type)
    assert (first.headers.get("X-Idempotent-Replay"), again.headers["X-Idempotent-Replay"]) == (None, "true")
    assert again.headers["X-Request-Id"] != first.headers["X-Request-Id"]
    assert names(admin) == ["experts"]


def test_an_etag_is_replayed_with_its_answer(admin: Client, engine: Engine, tenant: str) -> None:
    body = {"runId": a_run(engine, tenant), "answer": "wrong", "why": "no"}
    path = f"/v1/corrections/{admin.post('/v1/corrections', body).json['id']}"
    first = admin.patch(path, {"note": "seen"}, headers=KEY)
    again = admin.patch(path, {"note": "seen"}, headers=KEY)
    assert again.headers["X-Idempotent-Replay"] == "true"
    assert again.headers.get("ETag") == first.headers.get("ETag")


def test_another_body_is_a_mismatch_to_the_byte(admin: Client) -> None:
    data = b'{"name": "n", "weight": 1, "scope": {"kind": "tenant"}}'
    assert admin.post(GROUPS, data=data, headers=KEY).status_code == 201
    for other in (data + b" ", b"", b"{", data.replace(b"1", b"1.0")):
        assert refusal(admin.post(GROUPS, data=other, headers=KEY)) == (409, "idempotency-key-body-mismatch")
    assert admin.post(GROUPS, data=data, headers=KEY).status_code == 201


def test_a_key_is_of_one_caller_method_and_path(admin: Client, client_of: ClientOf, tenant: str) -> None:
    made = admin.post(GROUPS, NEW, headers=KEY).json
    others = client_of(role="admin", user="ben"), client_of(role="admin", user="admin", tenant_id=f"{tenant}-other")
    assert refusal(others[0].post(GROUPS, NEW, headers=KEY)) == (409, "corrector-group-name-taken")
    assert others[1].post(GROUPS, NEW, headers=KEY).json["id"] != made["id"]
    assert admin.patch(f"{GROUPS}/{made['id']}", {"weight": 2}, headers=KEY).json["weight"] == 2
    same = client_of(role="admin", user="admin")  # another token of the same principal
    assert same.post(GROUPS, NEW, headers=KEY).json == made


@pytest.mark.parametrize("key", ["", " ", "a b", "é", "x" * 256, "a\tb"])
def test_what_no_key_can_be(admin: Client, key: str) -> None:
    assert refusal(admin.post(GROUPS, NEW, headers={"Idempotency-Key": key})) == (400, "bad-input")
    assert names(admin) == []


def test_the_longest_key_is_taken(admin: Client) -> None:
    assert admin.post(GROUPS, NEW, headers={"Idempotency-Key": "~" * 255}).status_code == 201


def test_an_answer_of_400_or_more_is_not_kept(admin: Client) -> None:
    assert refusal(admin.post(GROUPS, {}, headers=KEY)) == (400, "bad-input")
    assert admin.post(GROUPS, NEW, headers=KEY).status_code == 201
    assert refusal(admin.post(GROUPS, NEW, headers={"Idempotency-Key": "other"})) == (409, "corrector-group-name-taken")
    admin.post(f"{GROUPS}/{admin.post(GROUPS, NEW, headers=KEY).json['id']}/unregister")
    assert admin.post(GROUPS, NEW, headers={"Idempotency-Key": "other"}).status_code == 201


def test_of_many_at_once_one_takes_effect(admin: Client) -> None:
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: admin.post(GROUPS, NEW, headers=KEY), range(40)))
    made = {answer.data for answer in answers if answer.status_code == 201}
    assert len(made) == 1
    refused = [answer for answer in answers if answer.status_code != 201]
    assert {refusal(answer) for answer in refused} <= {(409, "idempotency-key-in-flight")}
    assert {answer.headers["Retry-After"] for answer in refused} <= {"5"}
    assert Counter(names(admin)) == {"experts": 1}


def test_while_the_first_still_runs_the_second_is_told_to_wait(admin: Client, engine: Engine) -> None:
    def second() -> Any:
        return refusal(admin.post(GROUPS, NEW, headers=KEY))

    assert admin.caller is not None
    body = b'{"name": "experts", "weight": 1, "scope": {"kind": "tenant"}}'
    with transaction(engine) as tx:
        seen = []

        def run() -> Any:
            seen.append(second())
            raise InterruptedError

        with pytest.raises(InterruptedError), tx.attempt():
            once(tx, Keyed(admin.caller, "POST", GROUPS, "k", body), run)
    assert seen == [(409, "idempotency-key-in-flight")]
    assert admin.post(GROUPS, NEW, headers=KEY).status_code == 201, "the key is free once its first request is gone"


def test_without_its_store_nothing_runs(settings: Settings, database_url: str, admin: Client) -> None:
    client = Client(create_app(dataclasses.replace(settings, lock_timeout_ms=100)), admin.secret, admin.caller)
    with locked(database_url, "idempotency_answers"):
        answer = client.post(GROUPS, NEW, headers=KEY)
        assert refusal(answer) == (503, "idempotency-store-unavailable")
        assert int(answer.headers["Retry-After"]) > 0
        assert names(admin) == []
        assert client.post(GROUPS, NEW).status_code == 201, "without a key the store isn't asked"


def test_what_a_replay_would_be_after_a_day_runs_anew(admin: Client, database_url: str, tenant: str) -> None:
    made = admin.post(GROUPS, NEW, headers=KEY).json
    connection = psycopg2.connect(database_url)
    with connection, connection.cursor() as cursor:
        cursor.execute("UPDATE idempotency_answers SET expires_at = clock_timestamp() WHERE tenant_id = %s", (tenant,))
    connection.close()
    assert refusal(admin.post(GROUPS, NEW, headers=KEY)) == (409, "corrector-group-name-taken")
    admin.post(f"{GROUPS}/{made['id']}/unregister")
    assert admin.post(GROUPS, NEW, headers=KEY).json["id"] != made["id"]
    assert admin.post(GROUPS, NEW, headers=KEY).headers["X-Idempotent-Replay"] == "true"

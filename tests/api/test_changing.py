"""Changing and removing corrections by hand."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest
from sqlalchemy import Engine

from app.domain.model import Grant
from app.services.change import remove
from app.store.engine import reading
from app.transaction import transaction
from tests.client import Client
from tests.conftest import ClientOf
from tests.factories import a_run

ADMIN = {"kind": "user", "id": "admin"}
PULL = {"kind": "pull-request", "url": "https://example.com/pull/7"}
WRONG_ANSWER = {"answer": "wrong", "why": "no"}
WRONG_DECISIONS = {"decisions": "wrong", "mustNotCall": ["refund"]}


@pytest.fixture
def run(engine: Engine, tenant: str) -> str:
    return a_run(engine, tenant)


def record(client: Client, run: str, body: dict[str, Any]) -> Any:
    answer = client.post("/v1/corrections", {"runId": run} | body)
    assert answer.status_code == 201, answer.text
    return answer.json


def change(client: Client, correction: Any, body: dict[str, Any], **headers: str) -> Any:
    return client.patch(
        f"/v1/corrections/{correction['id']}", body, headers={k.replace("_", "-"): v for k, v in headers.items()}
    )


def history(client: Client, correction: Any) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = client.get(f"/v1/corrections/{correction['id']}/history").json["data"]
    return [{name: value for name, value in row.items() if name != "at"} for row in rows]


def test_all_at_once(admin: Client, run: str) -> None:
    made = record(admin, run, WRONG_ANSWER)
    answer = change(
        admin, made, {"sortedTo": "developer", "reason": "a bug", "status": "being-fixed", "link": PULL, "note": "soon"}
    )
    assert answer.status_code == 200
    shown = answer.json
    at = shown["updatedAt"]
    assert shown == made | {
        "status": "being-fixed",
        "sortedTo": "developer",
        "sorted": {"by": ADMIN, "reason": "a bug", "at": at},
        "link": PULL,
        "statusNote": {"text": "soon", "by": ADMIN, "at": at},
        "updatedAt": at,
    }
    assert history(admin, made)[2:] == [
        {"kind": "sorted", "by": ADMIN, "from": "improve", "to": "developer", "reason": "a bug"},
        {"kind": "status", "by": ADMIN, "from": "open", "to": "being-fixed"},
        {"kind": "linked", "by": ADMIN, "to": "https://example.com/pull/7"},
        {"kind": "noted", "by": ADMIN, "reason": "soon"},
    ]


def test_a_link_is_taken_away_by_null(admin: Client, run: str) -> None:
    made = record(admin, run, WRONG_ANSWER)
    assert change(admin, made, {"link": {"kind": "improve-run", "id": "7"}}).json["link"] == {
        "kind": "improve-run",
        "id": "7",
    }
    assert "link" not in change(admin, made, {"link": None}).json
    assert history(admin, made)[2:] == [
        {"kind": "linked", "by": ADMIN, "to": "improve-run:7"},
        {"kind": "linked", "by": ADMIN, "from": "improve-run:7"},
    ]


def test_taking_away_a_link_that_is_not_there_is_no_event(admin: Client, run: str) -> None:
    made = record(admin, run, WRONG_ANSWER)
    assert change(admin, made, {"link": None}).status_code == 200
    assert history(admin, made)[2:] == []


def test_a_status_set_by_hand_clears_what_fixed_it(admin: Client, run: str) -> None:
    made = record(admin, run, {"answer": "right"})
    assert made["fixedIn"]["how"] == "recorded-right"
    resorted = change(admin, made, {"sortedTo": "owner"}).json
    assert (resorted["status"], resorted["fixedIn"]) == ("fixed", made["fixedIn"])
    shown = change(admin, made, {"status": "with-owner"}).json
    assert shown["status"] == "with-owner"
    assert "fixedIn" not in shown


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({}, ""),
        ({"reason": "x"}, "/reason"),
        ({"status": "fixed"}, "/status"),
        ({"status": "removed"}, "/status"),
        ({"status": None}, "/status"),
        ({"sortedTo": "none"}, "/sortedTo"),
        ({"sortedTo": "owner", "status": "open"}, "/status"),
        ({"sortedTo": "improve", "status": "with-owner"}, "/status"),
        ({"note": "x" * 4001}, "/note"),
        ({"note": "a\x00b"}, "/note"),
        ({"sortedTo": "owner", "reason": "x" * 4001}, "/reason"),
        ({"link": {"kind": "pull-request", "url": "not a url"}}, "/link/url"),
        ({"link": {"kind": "improve-run"}}, "/link/id"),
        ({"link": {"kind": "ticket", "id": "1"}}, "/link/kind"),
        ({"madeBy": ADMIN}, "/madeBy"),
    ],
)
def test_what_can_not_be_asked(admin: Client, run: str, body: dict[str, Any], path: str) -> None:
    made = record(admin, run, WRONG_ANSWER)
    answer = change(admin, made, body)
    assert answer.status_code == 400
    error = answer.json["error"]
    assert error["code"] == ("unknown-field" if path == "/madeBy" else "bad-input")
    assert path in [issue["path"] for issue in error["details"]["issues"]]
    assert admin.get(f"/v1/corrections/{made['id']}").json["updatedAt"] == made["updatedAt"]


def test_open_alone_can_not_hold_with_the_owner(admin: Client, run: str) -> None:
    made = record(admin, run, WRONG_DECISIONS)
    assert change(admin, made, {"status": "open"}).status_code == 400
    assert change(admin, made, {"status": "open", "sortedTo": "improve"}).json["status"] == "open"


def test_a_stale_etag_changes_nothing(admin: Client, run: str) -> None:
    made = record(admin, run, WRONG_ANSWER)
    etag = admin.get(f"/v1/corrections/{made['id']}").headers["ETag"]
    changed = change(admin, made, {"note": "one"}, If_Match=etag)
    assert changed.status_code == 200
    assert changed.headers["ETag"] == admin.get(f"/v1/corrections/{made['id']}").headers["ETag"] != etag
    for stale in (etag, '"x"', f"W/{changed.headers['ETag']}"):
        answer = change(admin, made, {"note": "two"}, If_Match=stale)
        assert (answer.status_code, answer.json["error"]["code"]) == (412, "precondition-failed")
    assert change(admin, made, {"note": "two"}, If_Match=f'"y", {changed.headers["ETag"]}').status_code == 200
    assert change(admin, made, {"note": "three"}, If_Match="*").status_code == 200


def test_what_was_superseded_can_not_be_changed(admin: Client, run: str) -> None:
    first = record(admin, run, WRONG_ANSWER)
    record(admin, run, WRONG_DECISIONS)
    assert change(admin, first, {"note": "x"}).json["error"]["code"] == "correction-superseded"
    answer = admin.post(f"/v1/corrections/{first['id']}/remove")
    assert (answer.status_code, answer.json["error"]["code"]) == (409, "correction-superseded")


def test_one_that_is_being_removed_is_not_superseded(admin: Client, engine: Engine, run: str) -> None:
    made = record(admin, run, WRONG_ANSWER)
    recorder = threading.Thread(target=record, args=(admin, run, WRONG_ANSWER))
    with transaction(engine) as tx:
        remove(tx, admin.caller, made["id"], None, lambda version: True)
        recorder.start()
        recorder.join(0.3)
        assert recorder.is_alive()
    recorder.join(10)
    shown = admin.get(f"/v1/corrections/{made['id']}").json
    assert (shown["status"], shown.get("supersededBy")) == ("removed", None)
    (live,) = admin.get(f"/v1/corrections?runId={run}").json["data"]
    assert live["createdAt"] >= shown["unregisteredAt"]
    assert [row["kind"] for row in history(admin, made)] == ["recorded", "sorted", "removed"]


def test_removing_is_for_good_and_the_same_twice(admin: Client, run: str) -> None:
    made = record(admin, run, {"answer": "right"})
    path = f"/v1/corrections/{made['id']}"
    removed = admin.post(f"{path}/remove", {"note": "by mistake"})
    assert removed.status_code == 200
    shown = removed.json
    at = shown["updatedAt"]
    assert shown == {name: value for name, value in made.items() if name != "fixedIn"} | {
        "status": "removed",
        "unregisteredAt": at,
        "updatedAt": at,
        "statusNote": {"text": "by mistake", "by": ADMIN, "at": at},
    }
    again = admin.post(f"{path}/remove")
    assert (again.status_code, again.json) == (200, shown)
    assert history(admin, made)[-1] == {
        "kind": "removed",
        "by": ADMIN,
        "from": "fixed",
        "to": "removed",
        "reason": "by mistake",
    }
    answer = change(admin, made, {"status": "open"})
    assert (answer.status_code, answer.json["error"]["code"]) == (409, "correction-removed")
    assert admin.get("/v1/corrections").json["data"] == []
    assert [row["id"] for row in admin.get("/v1/corrections?status=removed").json["data"]] == [made["id"]]
    assert record(admin, run, WRONG_ANSWER)["status"] == "open"


def test_who_may(admin: Client, client_of: ClientOf, run: str) -> None:
    made = record(admin, run, WRONG_ANSWER)
    path = f"/v1/corrections/{made['id']}"
    reader = client_of(grants=[Grant("project", "read", "p")])
    stranger = client_of(grants=[Grant("project", "admin", "q")])
    elsewhere = client_of(role="admin", tenant_id=f"{admin.caller.tenant_id}-2")
    for client, status, code in [
        (reader, 403, "permission-denied"),
        (stranger, 404, "correction-not-found"),
        (elsewhere, 404, "correction-not-found"),
    ]:
        for answer in (client.patch(path, {"note": "x"}), client.post(f"{path}/remove")):
            assert (answer.status_code, answer.json["error"]["code"]) == (status, code)
    assert client_of(grants=[Grant("project", "write", "p")]).patch(path, {"note": "x"}).status_code == 200


def test_a_change_asks_workers_for_the_queues_and_the_owner(
    admin: Client, run: str, engine: Engine, tenant: str
) -> None:
    made = record(admin, run, WRONG_ANSWER)
    change(admin, made, {"sortedTo": "owner"})
    change(admin, made, {"note": "still"})
    with reading(engine) as db:
        jobs = db.rows("SELECT job, ids FROM outbox WHERE tenant_id = %s ORDER BY id", (tenant,))
    assert [job for job, _ in jobs].count("corrigenda.route") == 3
    told = [json.loads(ids) for job, ids in jobs if job == "corrigenda.notify"]
    assert told == [{"event": "correction.with-owner", "correctionId": made["id"], "key": "2"}]

from __future__ import annotations

from typing import Any

from sqlalchemy import Engine

from app.services.notify import Event, tell_owners
from app.transaction import transaction
from tests.client import Client
from tests.conftest import ClientOf
from tests.factories import a_correction, an_owner


def tell(engine: Engine, tenant: str, *events: Event) -> None:
    with transaction(engine) as tx:
        tell_owners(tx, tenant, events)


def rows(client: Client, query: str = "") -> list[dict[str, Any]]:
    answer = client.get(f"/v1/notifications{query}")
    assert answer.status_code == 200, answer.text
    data: list[dict[str, Any]] = answer.json["data"]
    return data


def test_an_owner_is_told_once(engine: Engine, tenant: str, client_of: ClientOf, admin: Client) -> None:
    an_owner(engine, tenant, "ann", "ann", "bob")
    correction = a_correction(engine, tenant, run_id="run-1", status="with-owner", sorted_to="owner")
    event = Event("correction.with-owner", correction, "1")
    tell(engine, tenant, event, event)
    tell(engine, tenant, event, Event("correction.with-owner", "unknown", "1"))
    for owner in ("ann", "bob"):
        row = rows(client_of(user=owner))[0]
        assert row == {
            "id": row["id"],
            "type": "correction.with-owner",
            "at": row["at"],
            "data": {
                "correctionId": correction,
                "projectId": "p",
                "runId": "run-1",
                "subject": {"kind": "agent", "id": "support", "version": "1.0.0"},
                "status": "with-owner",
                "sortedTo": "owner",
            },
        }
        assert len(rows(client_of(user=owner))) == 1
    assert rows(admin) == []
    tell(engine, tenant, Event("correction.with-owner", correction, "2"))
    assert len(rows(client_of(user="ann"))) == 2


def test_nobody_is_told_without_owners(engine: Engine, tenant: str, admin: Client) -> None:
    correction = a_correction(engine, tenant, subject_id="unowned")
    tell(engine, tenant, Event("correction.fixed", correction, "1"))
    assert rows(admin) == []


def test_reading_marks_once_and_only_ones_own(engine: Engine, tenant: str, client_of: ClientOf) -> None:
    an_owner(engine, tenant, "ann")
    corrections = [a_correction(engine, tenant) for _ in range(3)]
    tell(engine, tenant, *(Event("correction.fixed", correction, "1") for correction in corrections))
    ann, bob = client_of(user="ann"), client_of(user="bob")
    first = rows(ann)[0]
    path = f"/v1/notifications/{first['id']}/read"
    read = ann.post(path)
    assert read.status_code == 200
    assert read.json == first | {"readAt": read.json["readAt"]}
    assert ann.post(path).data == read.data
    assert len(rows(ann, "?unread=true")) == 2
    assert rows(ann, "?unread=false") == [read.json]
    assert len(rows(ann)) == 3
    for refused in (bob.post(path), ann.post("/v1/notifications/nope/read"), ann.post("/v1/notifications/%00/read")):
        assert (refused.status_code, refused.json["error"]["code"]) == (404, "notification-not-found")


def test_pages_hold_each_notice_once(engine: Engine, tenant: str, client_of: ClientOf) -> None:
    an_owner(engine, tenant, "ann")
    ann = client_of(user="ann")
    for _ in range(5):
        tell(engine, tenant, Event("correction.fixed", a_correction(engine, tenant), "1"))
    seen: list[str] = []
    cursor = ""
    while True:
        answer = ann.get(f"/v1/notifications?unread=true&limit=2{cursor}").json
        seen += [row["id"] for row in answer["data"]]
        if not answer["hasMore"]:
            break
        cursor = f"&cursor={answer['nextCursor']}"
    assert seen == [row["id"] for row in rows(ann)]
    assert len(seen) == 5

"""A pass that fixes many tells of them as one."""

from __future__ import annotations

import json
from typing import Any

import pytest
from sqlalchemy import Engine

from app.store import passes
from app.store.engine import reading
from tests.lifecycle import Project
from tests.outbound import WRONG, Outbound
from tests.receiver import receiving


@pytest.fixture
def p(outbound: Outbound, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.setattr(passes, "MOST_NAMED", 3)
    outbound.own("ann", "bob")
    return Project(outbound.admin, outbound.engine)


def fix(p: Project, count: int) -> list[str]:
    made = [p.correct(WRONG) for _ in range(count)]
    p.test("2.0.0", dict.fromkeys(made, "right"))
    p.deploy("2.0.0")
    p.work()
    return made


def told(outbound: Outbound, user: str) -> list[dict[str, Any]]:
    return [word for word in outbound.inbox(user) if word["type"] != "correction.with-owner"]


def test_few_are_told_one_by_one(outbound: Outbound, p: Project) -> None:
    made = fix(p, 3)
    outbound.work()
    assert sorted(word["data"]["correctionId"] for word in told(outbound, "ann")) == sorted(made)


def test_many_are_one_digest_an_owner(outbound: Outbound, p: Project, engine: Engine) -> None:
    made = fix(p, 5)
    with reading(engine) as db:
        rows = db.rows("SELECT ids FROM outbox WHERE tenant_id = %s AND job LIKE '%%notify-many'", (outbound.tenant,))
    assert [json.loads(ids)["total"] for (ids,) in rows] == [5]
    outbound.work()
    for owner in ("ann", "bob"):
        (word,) = told(outbound, owner)
        assert (word["type"], word["data"]["total"]) == ("notification.digest", 5)
        assert [event["type"] for event in word["data"]["events"]] == ["correction.fixed"] * 3
        assert {event["data"]["correctionId"] for event in word["data"]["events"]} < set(made)


def test_fixed_and_reopened_ones_of_one_pass_are_told_apart(outbound: Outbound, p: Project) -> None:
    made = fix(p, 8)
    p.test("3.0.0", dict.fromkeys(made[:4], "wrong") | dict.fromkeys(made[4:], "right"))
    for correction in made[4:]:
        p.change(correction, status="with-owner")
    p.deploy("3.0.0")
    p.work()
    outbound.work()
    digests = [word["data"] for word in told(outbound, "ann") if word["type"] == "notification.digest"]
    types = [[digest["total"], digest["events"][0]["type"]] for digest in digests]
    assert sorted(types) == [
        [4, "correction.fixed"],
        [4, "correction.reopened"],
        [4, "correction.with-owner"],
        [8, "correction.fixed"],
    ]


@pytest.mark.parametrize("digest", [0, 60])
def test_endpoints_get_one_message_that_counts_all(outbound: Outbound, p: Project, digest: int) -> None:
    with receiving(200) as receiver:
        outbound.endpoint(receiver.url, digest=digest, events=("correction.fixed",))
        fix(p, 5)
        outbound.work()
        outbound.work()
        outbound.time_passes()
        outbound.send()
        (received,) = receiver.received
    body = json.loads(received.body)
    assert (body["type"], body["data"]["total"], len(body["data"]["events"])) == ("notification.digest", 5, 3)

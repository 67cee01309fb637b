"""Many claim at once and some die: each item has one holder at a time, is completed once, and late ones are told."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import Engine

from app.transaction import transaction
from tests.client import Client
from tests.locks import blocked
from tests.operation.machine import wait_for
from tests.work import BEING_FIXED, Work

THREADS = 8


@dataclass
class Ledger:
    """What the claimers believe, checked as they go."""

    holders: dict[str, int] = field(default_factory=dict)
    completed: Counter[str] = field(default_factory=Counter)
    late: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def take(self, items: list[dict[str, Any]], who: int) -> None:
        with self.lock:
            for item in items:
                if item["workItemId"] in self.holders:
                    self.faults.append(f"{item['workItemId']} has two holders")
                self.holders[item["workItemId"]] = who

    def let_go(self, item: dict[str, Any]) -> None:
        with self.lock:
            del self.holders[item["workItemId"]]


def together(work_of: Callable[[int], None]) -> None:
    threads = [threading.Thread(target=work_of, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_eight_claim_two_hundred_and_some_crash(flask_app: Flask, admin: Client, engine: Engine) -> None:
    Work(admin, engine).wait(150, subject="busy")
    Work(admin, engine).wait(50, subject="quiet")
    ledger = Ledger()

    def consume(who: int) -> None:
        dice = random.Random(who)
        mine = Work(Client(flask_app, admin.secret, admin.caller), engine)
        abandoned: list[dict[str, Any]] = []
        while sum(ledger.completed.values()) < 200 and not ledger.faults:
            items = mine.claim(dice.randint(1, 4), leaseSeconds=30)
            ledger.take(items, who)
            for item in items:
                ledger.let_go(item)  # from here on another may have it, as soon as this one's lease ends
                if dice.random() < 0.25:
                    mine.expire(item)
                    abandoned.append(item)
                elif (said := mine.ask("complete", item)) == "done":
                    with ledger.lock:
                        ledger.completed[item["workItemId"]] += 1
                else:
                    ledger.faults.append(said)
            if not items:
                unpark(mine, engine)
        for item in abandoned:
            with ledger.lock:
                ledger.late[mine.ask("complete", item)] += 1

    together(consume)
    assert ledger.faults == []
    assert len(ledger.completed) == 200
    assert set(ledger.completed.values()) == {1}
    assert set(ledger.late) == {"lost: expired"}
    states = Counter(row["state"] for row in admin.get("/v1/work?limit=100").json["data"])
    assert states == {"done": 100}
    assert admin.get("/v1/work/stats").json["queues"]["improve"]["done"] == 200


def unpark(work: Work, engine: Engine) -> None:
    for row in work.rows("&state=parked"):
        assert work.client.post(f"/v1/work/{row['workItemId']}/requeue").status_code == 200


def test_many_claimers_starve_nobody(flask_app: Flask, admin: Client, engine: Engine) -> None:
    work = Work(admin, engine)
    work.wait(60, subject="busy")
    few = work.wait(3, subject="quiet")
    found: list[str] = []

    def consume(_: int) -> None:
        mine = Work(Client(flask_app, admin.secret, admin.caller), engine)
        for _ in range(4):
            found.extend(item["correction"]["id"] for item in mine.claim())

    together(consume)
    assert len(found) == len(set(found)) == 32
    assert set(few) < set(found)


def test_a_claim_waits_for_nobody(admin: Client, engine: Engine) -> None:
    work = Work(admin, engine)
    first, second, third = work.wait(3)
    with transaction(engine) as tx:
        tx.run("SELECT FROM corrections WHERE tenant_id = %s AND id = %s FOR UPDATE", (work.tenant, first))
        tx.run("SELECT FROM work_items WHERE tenant_id = %s AND correction_id = %s FOR UPDATE", (work.tenant, second))
        assert [item["correction"]["id"] for item in work.claim(3)] == [third]
    assert [item["correction"]["id"] for item in work.claim(3)] == [first, second]


def test_a_requeue_that_waits_for_a_correction_holds_no_item(admin: Client, engine: Engine) -> None:
    """Whoever has the correction may want the item next: each would wait for the other."""
    work = Work(admin, engine)
    (correction,), states = work.wait(), list[str]()
    (item,) = work.claim()
    work.expire(item)
    requeue = threading.Thread(target=lambda: states.append(work.ask("requeue", item)))
    with transaction(engine) as tx:
        tx.run("SELECT FROM corrections WHERE tenant_id = %s AND id = %s FOR UPDATE", (work.tenant, correction))
        requeue.start()
        wait_for(lambda: blocked(engine))
        tx.run(
            "SELECT FROM work_items WHERE tenant_id = %s AND id = %s FOR UPDATE NOWAIT",
            (work.tenant, item["workItemId"]),
        )
    requeue.join()
    assert states == ["ready"]


@pytest.mark.parametrize("verb", ["renew", "release", "complete", "requeue"])
def test_an_item_that_retention_takes_meanwhile_is_not_found(admin: Client, engine: Engine, verb: str) -> None:
    work = Work(admin, engine)
    (correction,), answers = work.wait(), list[int]()
    (item,) = work.claim()
    body = {} if verb == "requeue" else {"leaseToken": item["leaseToken"]}
    body |= {"renew": {"leaseSeconds": 60}, "complete": {"outcome": BEING_FIXED}}.get(verb, {})
    path = f"/v1/work/{item['workItemId']}/{verb}"
    ask = threading.Thread(target=lambda: answers.append(admin.post(path, body).status_code))
    with transaction(engine) as tx:
        named = (work.tenant, correction)
        tx.run("SELECT FROM corrections WHERE tenant_id = %s AND id = %s FOR UPDATE", named)
        ask.start()
        wait_for(lambda: blocked(engine))
        tx.run("DELETE FROM work_items WHERE tenant_id = %s AND correction_id = %s", named)
        tx.run("DELETE FROM corrections WHERE tenant_id = %s AND id = %s", named)
    ask.join()
    assert answers == [404]

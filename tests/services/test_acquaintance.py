from __future__ import annotations

import threading
from typing import Any

import pytest
from sqlalchemy import Engine

from app.domain.model import Subject
from app.services.deploy import Resolves, deploy
from app.store.engine import reading
from app.store.running import acquaint
from app.transaction import transaction
from tests.client import Client
from tests.factories import a_project

SUBJECT = Subject("agent", "support")


def versions(engine: Engine, tenant: str) -> dict[str, str | None]:
    with reading(engine) as db:
        rows: list[Any] = db.rows("SELECT project_id, version FROM running WHERE tenant_id = %s", (tenant,))
    return dict(rows)


@pytest.mark.parametrize("known", [False, True], ids=["a new subject", "a subject that others know"])
def test_a_first_run_waits_for_the_deploy_that_is_under_way(
    engine: Engine, tenant: str, admin: Client, known: bool
) -> None:
    a_project(engine, tenant, "p")
    a_project(engine, tenant, "q")
    if known:
        with transaction(engine) as tx:
            acquaint(tx, tenant, "q", SUBJECT)
    met = threading.Event()

    def first_run() -> None:
        with transaction(engine) as tx:
            assert acquaint(tx, tenant, "p", SUBJECT)
        met.set()

    runner = threading.Thread(target=first_run)
    with transaction(engine) as tx:
        deploy(tx, admin.caller, Subject("agent", "support", "2"), "deploy", Resolves(), None)
        runner.start()
        assert not met.wait(0.3)
    runner.join(10)
    assert versions(engine, tenant) == ({"p": "2", "q": "2"} if known else {"p": "2"})


def test_a_deploy_waits_for_the_first_run_that_is_under_way(engine: Engine, tenant: str, admin: Client) -> None:
    a_project(engine, tenant, "p")

    def go_live() -> None:
        with transaction(engine) as tx:
            accepted = deploy(tx, admin.caller, Subject("agent", "support", "2"), "deploy", Resolves(), None)
        assert list(accepted.changed) == ["p"]

    deployer = threading.Thread(target=go_live)
    with transaction(engine) as tx:
        assert acquaint(tx, tenant, "p", SUBJECT)
        deployer.start()
        deployer.join(0.3)
        assert deployer.is_alive()
    deployer.join(10)
    assert versions(engine, tenant) == {"p": "2"}


def test_several_first_runs_at_once_are_one_first_time(engine: Engine, tenant: str) -> None:
    for number in range(3):
        a_project(engine, tenant, f"p{number}")
    met: list[bool] = []

    def first_run(number: int) -> None:
        with transaction(engine) as tx:
            met.append(acquaint(tx, tenant, f"p{number % 3}", SUBJECT))

    runners = [threading.Thread(target=first_run, args=(number,)) for number in range(9)]
    for runner in runners:
        runner.start()
    for runner in runners:
        runner.join(10)
    assert sorted(met) == [False] * 6 + [True] * 3
    assert versions(engine, tenant) == dict.fromkeys(["p0", "p1", "p2"])

"""Who accepts an event waits for no worker that has the same corrections in hand: the two would wait for each other."""

import threading

import pytest
from sqlalchemy import Engine

from app.domain.model import Subject
from app.services.apply import step
from app.store import clearing
from app.transaction import transaction
from tests.client import Client
from tests.lifecycle import Project, apply_all
from tests.locks import blocked
from tests.operation.machine import wait_for


@pytest.mark.parametrize("event", ["test run", "deploy", "pin"])
def test_events_are_accepted_while_a_worker_decides_on_what_they_name(
    admin: Client, engine: Engine, tenant: str, event: str
) -> None:
    p = Project(admin, engine)
    one = p.correct()
    p.test("2.0.0", {one: "right"})
    p.deploy("2.0.0")
    decided = False
    while not decided:
        with transaction(engine) as worker:
            assert step(worker, tenant, p.id, Subject("agent", "support"))
            status = worker.value("SELECT status FROM corrections WHERE tenant_id = %s AND id = %s", (tenant, one))
            decided = status == "fixed"
            if decided:
                accept(p, event, one)
    p.work()
    assert p.status(one) == ("open" if event == "test run" else "fixed")


def accept(p: Project, event: str, one: str) -> None:
    """Have ``event`` accepted, which names the correction ``one``."""
    if event == "test run":
        p.test("2.0.0", {one: "wrong"})
    elif event == "deploy":
        p.deploy("3.0.0", resolves={"correctionIds": [one]})
    else:
        p.pin("3.0.0", resolves={"correctionIds": [one]})


def test_a_worker_holds_corrections_in_their_order_whatever_the_order_of_events(
    admin: Client, engine: Engine, tenant: str
) -> None:
    p = Project(admin, engine)
    first, second = p.correct(), p.correct()
    p.deploy("2.0.0")
    p.work()
    p.test("2.0.0", {second: "right"})
    p.test("2.0.0", {first: "right"})
    worker = threading.Thread(target=lambda: apply_all(engine, tenant))
    with transaction(engine) as other:
        other.run("SELECT FROM corrections WHERE tenant_id = %s AND id = %s FOR SHARE", (tenant, first))
        worker.start()
        wait_for(lambda: blocked(engine))
        other.run("SELECT FROM corrections WHERE tenant_id = %s AND id = %s FOR SHARE NOWAIT", (tenant, second))
    worker.join()
    assert [p.status(first), p.status(second)] == ["fixed", "fixed"]


def test_an_erasure_holds_corrections_in_their_order_however_they_lie(
    admin: Client, engine: Engine, tenant: str
) -> None:
    p = Project(admin, engine)
    said = [p.correct(participantId="ann") for _ in range(20)]
    first, last = said[0], said[-1]
    for correction in said[:-1]:
        p.change(correction, status="wont-fix", note="puts the row behind the last one")

    def erase() -> None:
        with transaction(engine) as tx:
            tx.run("SET LOCAL enable_indexscan = off")
            clearing.clear_corrections(tx, tenant, said)

    worker = threading.Thread(target=erase)
    with transaction(engine) as other:
        other.run("SELECT FROM corrections WHERE tenant_id = %s AND id = %s FOR SHARE", (tenant, first))
        worker.start()
        wait_for(lambda: blocked(engine))
        other.run("SELECT FROM corrections WHERE tenant_id = %s AND id = %s FOR SHARE NOWAIT", (tenant, last))
    worker.join()
    assert "statusNote" not in admin.get(f"/v1/corrections/{first}").json

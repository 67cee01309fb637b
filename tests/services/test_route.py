"""Queues are true to corrections, whatever happened to them and however often it is done."""

from __future__ import annotations

import json
import threading
from typing import Any

from sqlalchemy import Engine

from app.services import route
from app.services.settle import settle
from app.store.engine import reading
from app.transaction import transaction
from tests.factories import a_correction, an_owner


def sync(engine: Engine, tenant: str, *corrections: str) -> None:
    with transaction(engine) as tx:
        route.sync(tx, tenant, corrections)


def change(engine: Engine, tenant: str, correction: str, **columns: Any) -> None:
    assignments = ", ".join(f"{name} = %({name})s" for name in columns)
    with transaction(engine) as tx:
        tx.run(
            f"UPDATE corrections SET {assignments} WHERE tenant_id = %(tenant)s AND id = %(id)s",
            {**columns, "tenant": tenant, "id": correction},
        )


def items(engine: Engine, tenant: str) -> list[tuple[str, str, str | None]]:
    with reading(engine) as db:
        return db.rows(  # type: ignore[return-value]
            "SELECT queue, state, ended_reason FROM work_items WHERE tenant_id = %s ORDER BY created_at, id", (tenant,)
        )


def announced(engine: Engine, tenant: str) -> list[list[str]]:
    with reading(engine) as db:
        rows = db.rows(
            "SELECT ids FROM outbox WHERE tenant_id = %s AND job = 'corrigenda.improve' ORDER BY id", (tenant,)
        )
    return [json.loads(row[0])["correctionIds"] for row in rows]


def inbox(engine: Engine, tenant: str) -> list[tuple[str, str, str]]:
    with reading(engine) as db:
        return db.rows(  # type: ignore[return-value]
            "SELECT principal_id, type, data::json->>'correctionId' FROM notifications WHERE tenant_id = %s"
            " ORDER BY principal_id, type",
            (tenant,),
        )


def lease(engine: Engine, tenant: str, holder: str, seconds: int = 300) -> None:
    with transaction(engine) as tx:
        tx.run(
            "UPDATE work_items SET state = 'leased', leased_by_kind = 'user', leased_by_id = %s,"
            " lease_expires_at = clock_timestamp() + %s * interval '1 second' WHERE tenant_id = %s",
            (holder, seconds, tenant),
        )


def test_a_waiting_correction_is_put_in_once_and_announced(engine: Engine, tenant: str) -> None:
    correction, owners = (
        a_correction(engine, tenant),
        a_correction(engine, tenant, status="with-owner", sorted_to="owner"),
    )
    unsorted = a_correction(engine, tenant, sorted_to=None)
    for _ in range(2):
        sync(engine, tenant, correction, owners, unsorted, "no-such-correction")
    assert sorted(items(engine, tenant)) == [("improve", "ready", None), ("owner", "ready", None)]
    assert announced(engine, tenant) == [[correction]]


def test_a_re_sort_makes_a_new_item(engine: Engine, tenant: str) -> None:
    correction = a_correction(engine, tenant)
    sync(engine, tenant, correction)
    change(engine, tenant, correction, sorted_to="developer")
    sync(engine, tenant, correction)
    assert items(engine, tenant) == [("improve", "withdrawn", "re-sorted"), ("developer", "ready", None)]


def test_what_no_longer_waits_is_withdrawn_and_says_why(engine: Engine, tenant: str) -> None:
    for status in ("fixed", "wont-fix", "being-fixed", "removed"):
        correction = a_correction(engine, tenant)
        sync(engine, tenant, correction)
        change(engine, tenant, correction, status=status)
        sync(engine, tenant, correction)
        assert items(engine, tenant)[-1] == ("improve", "withdrawn", status)


def test_a_correction_that_waits_again_gets_a_new_item(engine: Engine, tenant: str) -> None:
    correction = a_correction(engine, tenant)
    for status in ("open", "fixed", "open"):
        change(engine, tenant, correction, status=status)
        sync(engine, tenant, correction)
    assert items(engine, tenant) == [("improve", "withdrawn", "fixed"), ("improve", "ready", None)]


def test_two_at_once_make_one_item(engine: Engine, tenant: str) -> None:
    corrections = [a_correction(engine, tenant) for _ in range(20)]
    threads = [threading.Thread(target=sync, args=(engine, tenant, *corrections)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert items(engine, tenant) == [("improve", "ready", None)] * 20
    assert sorted(id_ for ids in announced(engine, tenant) for id_ in ids) == sorted(corrections)


def test_a_change_under_way_is_waited_for(engine: Engine, tenant: str) -> None:
    correction = a_correction(engine, tenant)
    with transaction(engine) as tx:
        tx.run("UPDATE corrections SET status = 'fixed' WHERE tenant_id = %s AND id = %s", (tenant, correction))
        other = threading.Thread(target=sync, args=(engine, tenant, correction))
        other.start()
        other.join(0.2)
        assert other.is_alive()
    other.join()
    assert items(engine, tenant) == []


def test_many_are_announced_in_hundreds(engine: Engine, tenant: str) -> None:
    corrections = [a_correction(engine, tenant) for _ in range(130)]
    sync(engine, tenant, *corrections)
    assert [len(ids) for ids in announced(engine, tenant)] == [100, 30]


def test_settling_withdraws_and_tells_holder_and_owners_once(engine: Engine, tenant: str) -> None:
    an_owner(engine, tenant, "olga", "holly", "olga")
    correction = a_correction(engine, tenant)
    sync(engine, tenant, correction)
    lease(engine, tenant, "holly")
    change(engine, tenant, correction, superseded_by="newer", unregistered_at="2026-01-01T00:00:00Z")
    for _ in range(2):
        with transaction(engine) as tx:
            settle(tx, tenant, [correction])
    assert items(engine, tenant) == [("improve", "withdrawn", "superseded")]
    assert inbox(engine, tenant) == [
        ("holly", "correction.superseded", correction),
        ("olga", "correction.superseded", correction),
    ]


def test_a_holder_whose_lease_expired_isnt_told(engine: Engine, tenant: str) -> None:
    correction = a_correction(engine, tenant)
    sync(engine, tenant, correction)
    lease(engine, tenant, "holly", seconds=-1)
    change(engine, tenant, correction, superseded_by="newer", unregistered_at="2026-01-01T00:00:00Z")
    with transaction(engine) as tx:
        settle(tx, tenant, [correction])
    assert inbox(engine, tenant) == []

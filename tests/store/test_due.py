"""What isn't due yet costs those who look for what is nothing, however much of it there is."""

from __future__ import annotations

import pytest
from sqlalchemy import Engine

from app.store import leases, sending
from app.transaction import Transaction, transaction
from tests.client import Client
from tests.work import Work

MANY = 60


def looked_at(tx: Transaction, table: str) -> int:
    """Rows of ``table`` that this transaction has fetched by an index."""
    fetched = "SELECT coalesce(sum(seq_tup_read + idx_tup_fetch), 0)::int FROM pg_stat_xact_user_tables"
    return int(tx.value(f"{fetched} WHERE relname = %s", (table,)))


def by_index(tx: Transaction) -> None:
    """As in a table that is large."""
    tx.run("SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off; SET LOCAL enable_sort = off")


@pytest.fixture
def work(admin: Client, engine: Engine) -> Work:
    return Work(admin, engine)


def test_leases_that_last(work: Work, engine: Engine) -> None:
    work.wait(MANY)
    assert len(work.claim(MANY)) == MANY
    with transaction(engine) as tx:
        by_index(tx)
        assert leases.lapse(tx, work.tenant, 5) == (0, [])
        assert looked_at(tx, "work_items") < MANY / 2


def test_delays_that_last(work: Work, engine: Engine) -> None:
    work.wait(MANY)
    for item in work.claim(MANY):
        assert work.ask("release", item, delaySeconds=3600) == "ready"
    with transaction(engine) as tx:
        by_index(tx)
        assert leases.wake(tx, work.tenant) is False
        assert looked_at(tx, "work_items") < MANY / 2


def test_messages_that_wait(engine: Engine, tenant: str, admin: Client) -> None:
    body = {"kind": "webhook", "target": "https://hooks.test/", "events": ["work.parked"], "scope": {"kind": "tenant"}}
    made = admin.post("/v1/notification-endpoints", body)
    assert made.status_code == 201, made.text
    with transaction(engine) as tx:
        tx.run(
            "INSERT INTO deliveries (tenant_id, id, endpoint_id, type, collecting, due_at)"
            " SELECT %s, 'later-' || n, %s, 'work.parked', false, now() + interval '1 hour'"
            "   FROM generate_series(1, %s) n",
            (tenant, made.json["id"], 10 * MANY),
        )
        by_index(tx)
        before = looked_at(tx, "deliveries")
        sending.take(tx)
        assert looked_at(tx, "deliveries") - before < 5 * MANY, "others' messages may wait, too"

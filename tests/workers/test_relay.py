"""What the relay sends, in which messages, and what it does when the broker is away."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from sqlalchemy import Engine

from app.domain import jobs
from app.domain.jobs import DEFAULT_QUEUE, IMPROVE_QUEUE
from app.store import outbox
from app.store.engine import create_engine, reading
from app.store.migrate import migrate
from app.transaction import transaction
from tests.conftest import new_database
from workers.relay import MOST_MESSAGES, PER_MESSAGE, Relay


class Broker:
    """Keeps what was sent. ``fails_after`` so many messages it is away."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, str, dict[str, Any]]] = []
        self.waiting = dict.fromkeys(MOST_MESSAGES, 0)
        self.fails_after: int | None = None

    def depth(self, queue: str) -> int:
        return self.waiting[queue]

    def send(self, queue: str, task: str, kwargs: Mapping[str, Any]) -> None:
        if self.fails_after is not None and len(self.sent) >= self.fails_after:
            raise OSError("broker away")
        self.sent.append((queue, task, dict(kwargs)))

    def close(self) -> None: ...


@pytest.fixture(scope="module")
def own_engine(server_url: str) -> Iterator[Engine]:
    """A database of this module's own: a relay serves all tenants."""
    url = new_database(server_url)
    migrate(url)
    engine = create_engine(url)
    yield engine
    engine.dispose()


@pytest.fixture
def engine(own_engine: Engine) -> Iterator[Engine]:
    yield own_engine
    with transaction(own_engine) as tx:
        tx.run("DELETE FROM outbox")


@pytest.fixture
def broker() -> Broker:
    return Broker()


@pytest.fixture
def relay(engine: Engine, broker: Broker) -> Relay:
    return Relay(engine, broker, resend_seconds=30)


def put(engine: Engine, tenant: str, *made: jobs.Job) -> None:
    with transaction(engine) as tx:
        outbox.put(tx, tenant, made)


def make_due(engine: Engine) -> None:
    with transaction(engine) as tx:
        tx.run("UPDATE outbox SET due_at = now()")


def due_in(engine: Engine) -> list[int]:
    with reading(engine) as db:
        rows = db.rows("SELECT round(extract(epoch FROM due_at - clock_timestamp())) FROM outbox ORDER BY id")
    return [int(row[0]) for row in rows]


def test_jobs_go_by_tenant_and_name_once(engine: Engine, relay: Relay, broker: Broker) -> None:
    put(engine, "a", jobs.route("1"), jobs.capture("r"), jobs.route("2"))
    put(engine, "b", jobs.route("3"))
    assert relay.round() == 4
    assert relay.round() == 0
    said = [(queue, task, kwargs["tenantId"], len(kwargs["jobs"])) for queue, task, kwargs in broker.sent]
    assert said == [
        (DEFAULT_QUEUE, "corrigenda.route", "a", 2),
        (DEFAULT_QUEUE, "corrigenda.capture", "a", 1),
        (DEFAULT_QUEUE, "corrigenda.route", "b", 1),
    ]


def test_a_message_holds_at_most_a_hundred(engine: Engine, relay: Relay, broker: Broker) -> None:
    put(engine, "a", *(jobs.route(str(i)) for i in range(250)))
    relay.round()
    assert [len(kwargs["jobs"]) for _, _, kwargs in broker.sent] == [PER_MESSAGE, PER_MESSAGE, 50]


def test_what_workers_share_goes_alone(engine: Engine, relay: Relay, broker: Broker) -> None:
    put(engine, "a", *[jobs.apply("p", "agent", "x")] * 3, jobs.route("1"), jobs.route("2"))
    relay.round()
    assert [(task, len(kwargs["jobs"])) for _, task, kwargs in broker.sent] == [
        ("corrigenda.apply", 1),
        ("corrigenda.apply", 1),
        ("corrigenda.apply", 1),
        ("corrigenda.route", 2),
    ]


def test_what_isnt_done_comes_again_ever_later(engine: Engine, relay: Relay, broker: Broker) -> None:
    put(engine, "a", jobs.route("1"))
    delays = []
    for _ in range(6):
        relay.round()
        delays += due_in(engine)
        make_due(engine)
    assert delays == [30, 60, 120, 240, 300, 300]
    assert len(broker.sent) == 6


def test_what_failed_before_goes_alone(engine: Engine, relay: Relay, broker: Broker) -> None:
    put(engine, "a", *(jobs.route(str(i)) for i in range(4)))
    with transaction(engine) as tx:
        tx.run("UPDATE outbox SET failures = 1 WHERE ids LIKE '%%\"1\"%%'")
    relay.round()
    assert sorted(len(kwargs["jobs"]) for _, _, kwargs in broker.sent) == [1, 3]


def test_a_broker_that_goes_away_keeps_nothing_back(engine: Engine, relay: Relay, broker: Broker) -> None:
    put(engine, "a", *(jobs.route(str(i)) for i in range(250)))
    broker.fails_after = 1
    with pytest.raises(OSError, match="broker away"):
        relay.round()
    broker.fails_after = None
    assert relay.round() == 150
    with reading(engine) as db:
        assert db.value("SELECT array_agg(DISTINCT sends) FROM outbox") == [1]


def test_announcements_are_done_when_published(engine: Engine, relay: Relay, broker: Broker) -> None:
    put(engine, "a", jobs.improve(["1", "2"]), jobs.improve(["3"]), jobs.improve([str(i) for i in range(99)]))
    relay.round()
    assert [(queue, task) for queue, task, _ in broker.sent] == [(IMPROVE_QUEUE, "corrigenda.improve")] * 2
    assert broker.sent[0][2] == {"tenantId": "a", "correctionIds": ["1", "2", "3"]}
    make_due(engine)
    assert relay.round() == 0


def test_a_full_queue_gets_no_more_and_holds_nothing_else_up(engine: Engine, relay: Relay, broker: Broker) -> None:
    put(engine, "a", jobs.improve(["1"]), jobs.route("1"))
    broker.waiting[IMPROVE_QUEUE] = MOST_MESSAGES[IMPROVE_QUEUE]
    assert relay.round() == 1
    assert [task for _, task, _ in broker.sent] == ["corrigenda.route"]
    with reading(engine) as db:
        assert outbox.lag(db).announcements == 1
    broker.waiting[IMPROVE_QUEUE] = 0
    assert relay.round() == 1

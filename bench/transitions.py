"""One deploy that fixes a hundred thousand corrections: how fast, how large, and what recordings feel meanwhile.

``python -m bench.transitions`` takes some minutes; ``--smoke`` takes half a minute and only shows that it runs.
Workers are processes that do the jobs of the outbox as tasks do, without a broker between.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass

import psutil
import psycopg2

from app.config import Settings
from app.domain.jobs import APPLY
from app.domain.model import Caller, Principal, Subject
from app.services.deploy import Resolves, deploy
from app.store.engine import create_engine, reading
from app.transaction import transaction
from bench.filling import fill
from bench.load import Plan
from bench.record import BODY
from bench.stage import TENANT, Database, api, cpu_seconds, new_database, postgres, put_load
from workers.task import Runner
from workers.transitions import handlers

# One subject of one project. Half wait for the owner, half for Improve, each with its item; all are right in 2.0.0.
_FILL = """
INSERT INTO projects (tenant_id, id, created_at, updated_at) VALUES (%(tenant)s, 'large', now(), now());
INSERT INTO subjects (tenant_id, kind, id) VALUES (%(tenant)s, 'agent', 'large');
INSERT INTO subject_owners VALUES (%(tenant)s, 'agent', 'large', 0, 'user', 'owner');
INSERT INTO running (tenant_id, project_id, subject_kind, subject_id) VALUES (%(tenant)s, 'large', 'agent', 'large');
INSERT INTO corrections (tenant_id, id, project_id, run_id, subject_kind, subject_id, subject_version, decisions,
                         should_call, answer, why, made_by_kind, made_by_id, participant_sha256, end_user, status,
                         sorted_to, sorted_by_kind, sorted_at, created_at, updated_at)
SELECT %(tenant)s, uuidv7(n * interval '1 second' - interval '40 days')::text, 'large', 'large-' || n, 'agent', 'large',
       '1.0.0', CASE WHEN n %% 2 = 0 THEN 'wrong' END, CASE WHEN n %% 2 = 0 THEN '[{"tool":"refund","args":{}}]' END,
       CASE WHEN n %% 2 = 1 THEN 'wrong' END, 'The policy says otherwise', 'user', 'person-' || n %% 50, '', false,
       CASE WHEN n %% 2 = 0 THEN 'with-owner' ELSE 'open' END, CASE WHEN n %% 2 = 0 THEN 'owner' ELSE 'improve' END,
       'rule', now(), now() - interval '40 days' + n * interval '1 second', now()
  FROM generate_series(1, %(count)s) n;
INSERT INTO work_items (tenant_id, id, correction_id, project_id, subject_kind, subject_id, queue, state,
                        correction_created_at, ready_since, available_at, created_at)
SELECT tenant_id, 'item-' || id, id, project_id, subject_kind, subject_id, sorted_to, 'ready', created_at, now(), now(),
       now()
  FROM corrections WHERE tenant_id = %(tenant)s AND subject_id = 'large';
INSERT INTO test_results (tenant_id, test_run_id, correction_id, project_id, subject_kind, subject_id, version, at, seq,
                          verdict, ignored)
SELECT tenant_id, 'tested', id, project_id, subject_kind, subject_id, '2.0.0', now(), 0, 'right', false
  FROM corrections WHERE tenant_id = %(tenant)s AND subject_id = 'large';
"""

# What became of everything, apart from the moments at which it was written.
_RESULT = """
SELECT md5(string_agg(concat_ws(' ', place, status, sorted_to, fixed_version, fixed_how, fixed_by_id, reopened_version,
                                at_the_event, version, decided_seq, told, withdrawn), E'\\n' ORDER BY place)),
       count(*), sum((status = 'fixed')::int), sum(told), sum(withdrawn)
  FROM (SELECT c.status, c.sorted_to, c.fixed_version, c.fixed_how, c.fixed_by_id, c.reopened_version, c.version,
               c.decided_seq, row_number() OVER (ORDER BY c.id) AS place, c.fixed_at = e.accepted_at AS at_the_event,
               (SELECT count(*) FROM correction_history h
                 WHERE h.tenant_id = c.tenant_id AND h.correction_id = c.id AND h.kind = 'fixed') AS told,
               (SELECT count(*) FROM work_items w WHERE w.tenant_id = c.tenant_id AND w.correction_id = c.id
                   AND w.state = 'withdrawn' AND w.ended_reason = 'fixed') AS withdrawn
          FROM corrections c, accepted_events e
         WHERE c.tenant_id = %(tenant)s AND c.subject_id = 'large' AND e.tenant_id = c.tenant_id
           AND e.subject_id = 'large') done
"""


_JOBS = "SELECT tenant_id, id FROM outbox WHERE job = %s AND done_at IS NULL ORDER BY random()"
_APPLIED = "SELECT applied_seq = 1 FROM running WHERE tenant_id = %s AND subject_id = 'large'"


@dataclass(frozen=True)
class Result:
    """``digest``: of what became of each correction, its history rows and its work items."""

    digest: str
    corrections: int
    fixed: int
    histories: int
    items: int


class Workers:
    """Worker processes, and the most memory that any of them took."""

    def __init__(self, database: Database, count: int) -> None:
        self._database = database
        self.processes = [self._start() for _ in range(count)]
        self.peak_bytes = 0
        self.cpu_seconds = 0.0
        self._watching = threading.Event()
        self._watch = threading.Thread(target=self._look, daemon=True)
        self._watch.start()

    def _start(self) -> subprocess.Popen[bytes]:
        environ = {**os.environ, "DATABASE_URL": self._database.url}
        return subprocess.Popen([sys.executable, "-m", "bench.transitions", "--work"], env=environ)

    def _look(self) -> None:
        while not self._watching.wait(0.05):
            for process in self.processes:
                with contextlib.suppress(psutil.Error):
                    self.peak_bytes = max(self.peak_bytes, psutil.Process(process.pid).memory_info().rss)

    def replace_one(self) -> None:
        """Kill one with ``SIGKILL`` and start another."""
        self.processes[0].kill()
        self.processes[0].wait()
        self.processes[0] = self._start()

    def end(self) -> None:
        self._watching.set()
        self._watch.join()
        for process in self.processes:
            with contextlib.suppress(psutil.Error):
                self.cpu_seconds += cpu_seconds(process.pid)
            process.send_signal(signal.SIGTERM)
            process.wait()


def work() -> None:
    """Do the outbox's jobs of applying events until SIGTERM."""
    url = os.environ["DATABASE_URL"]
    runner, engine = Runner(Settings(database_url=url)), create_engine(url, pool_size=1)
    (handler,) = handlers
    while True:
        with reading(engine) as db:
            rows = db.rows(
                "SELECT tenant_id, id FROM outbox WHERE job = %s AND done_at IS NULL ORDER BY random()", (APPLY,)
            )
        for tenant_id, row_id in rows:
            runner.run(handler, tenant_id, [row_id])
        time.sleep(0.02)


@contextlib.contextmanager
def working(database: Database, count: int) -> Iterator[Workers]:
    workers = Workers(database, count)
    time.sleep(1.5)  # until they have started
    try:
        yield workers
    finally:
        workers.end()


def prepare(database: Database, count: int) -> None:
    with contextlib.closing(psycopg2.connect(database.url)) as connection:
        connection.autocommit = True
        connection.cursor().execute("SET synchronous_commit = off")
        connection.cursor().execute(_FILL, {"tenant": TENANT, "count": count})
        connection.cursor().execute("VACUUM ANALYZE")
        connection.cursor().execute("CHECKPOINT")


def deploy_it(database: Database) -> None:
    caller = Caller(TENANT, Principal("user", "bench"), "bench", "admin")
    with transaction(create_engine(database.url)) as tx:
        deploy(tx, caller, Subject("agent", "large", "2.0.0"), "deploy", Resolves(), None)


def wait_until_applied(database: Database) -> None:
    engine = create_engine(database.url)
    with reading(engine) as db:
        while not db.value(
            "SELECT applied_seq = 1 FROM running WHERE tenant_id = %s AND subject_id = 'large'", (TENANT,)
        ):
            time.sleep(0.02)


def result(database: Database) -> Result:
    with reading(create_engine(database.url)) as db:
        row = db.row(_RESULT, {"tenant": TENANT})
    assert row is not None
    return Result(*row)


def alone(database: Database, count: int, workers: int) -> Result:
    """The rate, memory and CPU with nothing beside."""
    prepare(database, count)
    with working(database, workers) as team:
        before = cpu_seconds(database.server_pid)
        started = time.perf_counter()
        deploy_it(database)
        wait_until_applied(database)
        took = time.perf_counter() - started
        spent = cpu_seconds(database.server_pid) - before
    made = result(database)
    print(
        f"| {workers} | {made.fixed / took:,.0f} | {took:.1f} | {team.peak_bytes / 1e6:.0f} |"
        f" {team.cpu_seconds * 1e6 / count:.0f} | {spent * 1e6 / count:.0f} |"
    )
    return made


def killed(database: Database, count: int) -> Result:
    """Two workers, one of which is killed again and again."""
    prepare(database, count)
    with working(database, 2) as team:
        deploy_it(database)
        for _ in range(3):
            time.sleep(max(1.0, count / 40_000))
            team.replace_one()
        wait_until_applied(database)
    return result(database)


def beside(database: Database, count: int, seconds: float, connections: int) -> None:
    """What recordings take without a pass and beside one."""
    fill(database, 1_000, 10_000, fresh=int(seconds + 2) * 4_000)
    prepare(database, count)
    headers = {"Authorization": f"Bearer {database.token}", "Content-Type": "application/json"}
    with api(database) as (port, pid), working(database, 2):

        def plan(first: int) -> Plan:
            kinds = [("POST", "/v1/corrections", json.dumps(BODY))]
            return Plan(port, kinds, headers, connections=connections, seconds=seconds, first=first)

        before = put_load(plan(1_000), pid, database.server_pid).outcome
        started = time.perf_counter()
        deploy_it(database)
        during = put_load(plan(before.last), pid, database.server_pid).outcome
        wait_until_applied(database)
        took = time.perf_counter() - started
    print(f"recordings: p50 {before.p50} ms, p99 {before.p99} ms, {before.rate:.0f}/s alone;")
    print(f"            p50 {during.p50} ms, p99 {during.p99} ms, {during.rate:.0f}/s beside a pass of {took:.1f} s")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--corrections", type=int, default=100_000)
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--connections", type=int, default=4)
    parser.add_argument("--smoke", action="store_true", help="seconds instead of minutes; the numbers say nothing")
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        return work()
    if options.smoke:
        options.corrections, options.seconds = 5_000, 1
    count = options.corrections
    with postgres() as folder:
        print("| workers | transitions/s | seconds | peak MB of one | its CPU µs each | database CPU µs each |")
        print("|---|---|---|---|---|---|")
        made = [alone(new_database(folder, f"alone{n}"), count, n) for n in (1, 2)]
        made.append(killed(new_database(folder, "killed"), count))
        assert len({one.digest for one in made}) == 1, made
        assert (made[0].corrections, made[0].fixed, made[0].histories, made[0].items) == (count,) * 4, made[0]
        print(f"killed with SIGKILL three times: the same result, {count} fixed once each")
        beside(new_database(folder, "beside"), count, options.seconds, options.connections)
    return None


if __name__ == "__main__":
    main()

"""What a claim of work costs as more and more waits, and how many a server hands out.

``python -m bench.claims`` takes some minutes and gigabytes; ``--smoke`` takes half a minute and only shows that it
runs.
"""

from __future__ import annotations

import argparse
import contextlib
import json

import psutil
import psycopg2

from bench.filling import PROJECTS, fill, without_indexes
from bench.load import Plan
from bench.record import HEADINGS, report
from bench.stage import TENANT, Database, api, limited, new_database, postgres, put_load
from bench.statements import Cost, blocks_of, pgbench, script_of, statements_of

SUBJECTS = {"owner": 1, "improve": 1000}
"""How many subjects each queue's work is of."""

# A subject's corrections are one in so many, all of one project; each has an item that waits.
_FILL = """
INSERT INTO subjects (tenant_id, kind, id)
SELECT %(tenant)s, 'agent', %(queue)s || '-' || n FROM generate_series(0, %(subjects)s - 1) n;
INSERT INTO running (tenant_id, project_id, subject_kind, subject_id)
SELECT %(tenant)s, 'project-' || n %% %(projects)s, 'agent', %(queue)s || '-' || n
  FROM generate_series(0, %(subjects)s - 1) n;
INSERT INTO corrections (tenant_id, id, project_id, run_id, subject_kind, subject_id, subject_version, answer, why,
                         made_by_kind, made_by_id, participant_sha256, end_user, status, sorted_to, sorted_by_kind,
                         sorted_at, created_at, updated_at)
SELECT %(tenant)s, uuidv7(n * interval '1 second' - interval '40 days')::text,
       'project-' || n %% %(subjects)s %% %(projects)s, 'run-' || n %% %(runs)s, 'agent',
       %(queue)s || '-' || n %% %(subjects)s, '1.0.0', 'wrong', 'The policy says otherwise', 'user',
       %(queue)s || '-' || n, '', false, CASE WHEN %(queue)s = 'owner' THEN 'with-owner' ELSE 'open' END, %(queue)s,
       'rule', now(), now() - interval '40 days' + n * interval '1 second', now()
  FROM generate_series(1, %(waiting)s) n;
"""

_ITEMS = """
INSERT INTO work_items (tenant_id, id, correction_id, project_id, subject_kind, subject_id, queue, state,
                        correction_created_at, ready_since, available_at, created_at)
SELECT tenant_id, 'item-' || id, id, project_id, subject_kind, subject_id, sorted_to, 'ready', created_at, now(), now(),
       now()
  FROM corrections WHERE tenant_id = %(tenant)s
"""

_COPIES = """
INSERT INTO copies (tenant_id, run_id, project_id, subject_kind, subject_id, subject_version, input, output,
                    captured_at, taken_at, context, context_at)
SELECT tenant_id, id, project_id, subject_kind, subject_id, subject_version, input, output, now(), now(),
       '{"history":[]}', now()
  FROM runs WHERE tenant_id = %(tenant)s
"""

CASES: dict[str, tuple[bool, dict[str, object]]] = {
    "anything": (True, {}),
    "anything, by one who may write three projects": (False, {}),
    "a project's": (True, {"projectId": "project-0"}),
    "a subject's": (True, {"projectId": "project-0", "subject": {"kind": "agent", "id": "@queue-0"}}),
}
"""Who claims what: whether they may write everything, and what they ask for."""


def main() -> None:
    """Fill, compare, load, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--few", type=int, default=20_000)
    parser.add_argument("--many", type=int, default=1_000_000)
    parser.add_argument("--claims", type=int, default=200, help="so many claims of one, a tenth of it of a hundred")
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--smoke", action="store_true", help="seconds instead of minutes; the numbers say nothing")
    options = parser.parse_args()
    if options.smoke:
        options.few, options.many, options.claims, options.seconds = 4_000, 12_000, 20, 1
    with postgres() as server:
        few, many = new_database(server, "few"), new_database(server, "many")
        fill_work(few, options.few)
        fill_work(many, options.many)
        compare(few, many, options)
        print(HEADINGS)
        for queue in SUBJECTS:
            for connections in (1, 16):
                under_load(queue, many, options.seconds, connections)


def fill_work(database: Database, waiting: int) -> None:
    """Let ``waiting`` corrections wait in each queue."""
    runs = max(waiting // 50, 1_000)
    fill(database, runs, 0)
    with contextlib.closing(psycopg2.connect(database.url)) as connection:
        connection.autocommit = True
        cursor = connection.cursor()
        cursor.execute("SET synchronous_commit = off")
        with without_indexes(cursor, "corrections"), without_indexes(cursor, "work_items"):
            for queue, subjects in SUBJECTS.items():
                values = {"queue": queue, "subjects": subjects, "projects": PROJECTS, "runs": runs, "waiting": waiting}
                cursor.execute(_FILL, {"tenant": TENANT, **values})
            cursor.execute(_ITEMS, {"tenant": TENANT})
        cursor.execute(_COPIES, {"tenant": TENANT})
        cursor.execute("VACUUM ANALYZE")
        cursor.execute("CHECKPOINT")


def compare(few: Database, many: Database, options: argparse.Namespace) -> None:
    """What claims cost in both databases."""
    print(
        f"\n| claim of | subjects | items | ms at {options.few:,} | ms at {options.many:,} | ratio |"
        f" blocks at {options.few:,} | at {options.many:,} |\n|---|---|---|---|---|---|---|---|"
    )
    for queue, subjects in SUBJECTS.items():
        for name in CASES:
            for limit, count in ((1, options.claims), (100, max(options.claims // 10, 2))):
                a, b = (cost(database, queue, name, limit, count) for database in (few, many))
                ratio = f"{b.milliseconds / max(a.milliseconds, 0.001):.1f}" if a and b else "–"
                spent = " | ".join(f"{each.milliseconds:.2f}" if each else "–" for each in (a, b))
                blocks = " | ".join(f"{each.blocks:,}" if each else "–" for each in (a, b))
                print(f"| {name} | {subjects:,} | {limit} | {spent} | {ratio} | {blocks} |", flush=True)


def cost(database: Database, queue: str, name: str, limit: int, count: int) -> Cost | None:
    """What the statements of a claim cost, on average over ``count`` of them, one after the other on one connection;
    ``None`` if there was too little to claim."""
    everything, asked = CASES[name]
    body = json.dumps({"queue": queue, "limit": limit, **asked}).replace("@queue", queue).encode()
    caller = database if everything else limited(database, "write", 0, 3, 5)
    statements = statements_of(caller, "POST", "/v1/work/claims", body)
    with contextlib.closing(psycopg2.connect(database.url)) as connection:
        connection.autocommit = True
        cursor = connection.cursor()
        backend = psutil.Process(connection.info.backend_pid)
        spent = 0.0
        for number in range(count + 1):
            if number == 1:  # the first one fills the caches
                spent = -sum(backend.cpu_times()[:2])
            for statement in statements:
                cursor.execute(statement)
                if "claim_work" in statement and cursor.rowcount < limit:
                    return None
        spent += sum(backend.cpu_times()[:2])
        return Cost(spent * 1000 / count, _blocks(cursor, statements))


def _blocks(cursor: psycopg2.extensions.cursor, statements: list[str]) -> int:
    """Blocks that the statements look at, on a claim that is undone."""
    total = 0
    cursor.execute("BEGIN")
    for statement in (each.removeprefix("BEGIN; ").strip() for each in statements):
        if statement != "COMMIT":
            total += blocks_of(cursor, statement)
    cursor.execute("ROLLBACK")
    return total


def under_load(queue: str, database: Database, seconds: float, connections: int) -> None:
    """Claims of one through the server, and their statements through pgbench."""
    body = json.dumps({"queue": queue, "leaseSeconds": 3600})
    statements = statements_of(database, "POST", "/v1/work/claims", body.encode())
    ceiling = pgbench(database, script_of(statements), seconds, connections)
    with api(database) as (port, pid):
        sent = {"Authorization": f"Bearer {database.token}", "Content-Type": "application/json"}
        plan = Plan(port, [("POST", "/v1/work/claims", body)], sent, connections, seconds=seconds)
        measured = put_load(plan, pid, database.server_pid)
    assert set(measured.outcome.statuses) == {"200"}, measured.outcome.statuses
    report(f"subjects: {SUBJECTS[queue]:,}, connections: {connections}", measured, ceiling, len(statements))


if __name__ == "__main__":
    main()

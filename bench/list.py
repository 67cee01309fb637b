"""A page of 25 through the real server against pgbench, and what each filter's page costs as the table grows.

``python -m bench.list`` takes a few minutes and some gigabytes; ``--smoke`` takes half a minute and only shows that it
runs.
"""

from __future__ import annotations

import argparse
import contextlib

import psutil
import psycopg2

from bench.filling import fill
from bench.load import Plan
from bench.record import HEADINGS, report
from bench.stage import Database, api, limited, new_database, postgres, put_load
from bench.statements import Cost, blocks_of, pgbench, script_of, statements_of

_TIMES = "since=2000-01-01T00:00:00Z&until=2100-01-01T00:00:00Z"

FILTERS: dict[str, str] = {
    "(none)": "",
    "runId": "runId=run-7",
    "agentId": "agentId=agent-3",
    "agentId, agentVersion": "agentId=agent-3&agentVersion=1.2.0",
    "flowId (no such)": "flowId=flow-3",
    "status=open": "status=open",
    "status=not-fixed": "status=not-fixed",
    "status=removed": "status=removed",
    "sortedTo=owner": "sortedTo=owner",
    "sortedTo=none": "sortedTo=none",
    "from=experts": "from=experts",
    "from=end-users": "from=end-users",
    "madeBy=me": "madeBy=me",
    "since": "since=2000-01-01T00:00:00Z",
    "since, until": _TIMES,
    "correctorGroupId": "correctorGroupId=group-1",
    "participantId": "participantId=participant-15",
    "scopeKind=project": "scopeKind=project&scopeId=project-3",
    "scopeKind=org": "scopeKind=org&scopeId=org-1",
    "project, status": "scopeKind=project&scopeId=project-3&status=open",
    "project, not-fixed": "scopeKind=project&scopeId=project-3&status=not-fixed",
    "project, sortedTo": "scopeKind=project&scopeId=project-3&sortedTo=improve",
    "project, agent": "scopeKind=project&scopeId=project-3&agentId=agent-3",
    "agent, status": "agentId=agent-3&status=with-owner",
    "agent, version, status": "agentId=agent-3&agentVersion=1.2.0&status=open",
    "status, sortedTo": "status=open&sortedTo=improve,developer",
    "from, status": "from=end-users&status=open",
    "madeBy, status": "madeBy=me&status=not-fixed",
    "project, status, since, until": f"scopeKind=project&scopeId=project-3&status=open&{_TIMES}",
    "agent, status, since, until": f"agentId=agent-3&status=open&{_TIMES}",
    "sortedTo, since, until": f"sortedTo=owner&{_TIMES}",
    "from, since, until": f"from=experts&{_TIMES}",
    "madeBy, since, until": f"madeBy=me&{_TIMES}",
}
"""Every filter alone, and the pairs that the console uses."""

PAGES: dict[str, str] = {
    "newest of all": "",
    "waiting for the owner": "status=with-owner",
    "an agent's open ones": "agentId=agent-3&status=open",
}
"""What is put under load."""


def main() -> None:
    """Fill twice, compare, load, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--few", type=int, default=10_000)
    parser.add_argument("--many", type=int, default=1_000_000)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--cpu-seconds", type=float, default=0.5, help="CPU spent on measuring each filter")
    parser.add_argument("--smoke", action="store_true", help="seconds instead of minutes; the numbers say nothing")
    options = parser.parse_args()
    if options.smoke:
        options.few, options.many, options.seconds, options.cpu_seconds = 1_000, 4_000, 1, 0.05
    with postgres() as server:
        few, many = new_database(server, "few"), new_database(server, "many")
        fill(few, options.few // 5, options.few)
        fill(many, options.many // 5, options.many)
        compare(few, many, options)
        print(HEADINGS)
        for name, query in PAGES.items():
            under_load(name, query, many, options.seconds)


def compare(few: Database, many: Database, options: argparse.Namespace) -> None:
    """What a page of each filter costs in both databases, to one who reads everything and to one of three projects."""
    print(
        f"\n| filter | ms at {options.few:,} | ms at {options.many:,} | ratio | blocks | blocks | 3 projects: ms | ms |"
    )
    print("|---|---|---|---|---|---|---|---|")
    limited_few, limited_many = limited(few, "read", 1, 3, 5), limited(many, "read", 1, 3, 5)
    for name, query in FILTERS.items():
        costs = [cost(database, query, options.cpu_seconds) for database in (few, many)]
        theirs = [cost(database, query, options.cpu_seconds) for database in (limited_few, limited_many)]
        print(
            f"| {name} | {costs[0].milliseconds:.2f} | {costs[1].milliseconds:.2f} |"
            f" {costs[1].milliseconds / costs[0].milliseconds:.1f} | {costs[0].blocks} | {costs[1].blocks} |"
            f" {theirs[0].milliseconds:.2f} | {theirs[1].milliseconds:.2f} |",
            flush=True,
        )


def cost(database: Database, query: str, cpu_seconds: float) -> Cost:
    """What the page's statement costs, run over and over on one connection."""
    statement = page_statement(database, query)
    with contextlib.closing(psycopg2.connect(database.url)) as connection:
        connection.autocommit = True
        cursor = connection.cursor()
        backend = psutil.Process(connection.info.backend_pid)
        for _ in range(5):
            cursor.execute(statement)
        count, before = 0, sum(backend.cpu_times()[:2])
        while (spent := sum(backend.cpu_times()[:2]) - before) < cpu_seconds:
            for _ in range(25):
                cursor.execute(statement)
            count += 25
        return Cost(spent * 1000 / count, blocks_of(cursor, statement))


def page_statement(database: Database, query: str) -> str:
    """The statement that reads a page of ``query``."""
    (statement,) = [s for s in statements_of(database, "GET", f"/v1/corrections?{query}") if "correction_json" in s]
    return statement


def under_load(name: str, query: str, database: Database, seconds: float) -> None:
    """A page through the server, and its statements through pgbench."""
    path = f"/v1/corrections?{query}"
    statements = statements_of(database, "GET", path)
    ceiling = pgbench(database, script_of(statements), seconds)
    with api(database) as (port, pid):
        plan = Plan(port, [("GET", path, "")], {"Authorization": f"Bearer {database.token}"}, seconds=seconds)
        measured = put_load(plan, pid, database.server_pid)
    assert set(measured.outcome.statuses) == {"200"}, measured.outcome.statuses
    report(name, measured, ceiling, len(statements))


if __name__ == "__main__":
    main()

"""Recording through the real server, against pgbench running the same statements in the same run.

``python -m bench.record`` takes a few minutes and some gigabytes; ``--smoke`` takes half a minute
and only shows that it runs.
"""

from __future__ import annotations

import argparse
import json
import re

from app.domain.model import Caller, Principal
from app.store import idempotency
from bench.filling import fill
from bench.load import Plan
from bench.stage import Database, Measured, api, new_database, postgres, put_load
from bench.statements import Ceiling, pgbench, script_of, statements_of

BODY = {
    "runId": "run-@N",
    "decisions": "wrong",
    "shouldCall": [
        {"tool": "update_reservation_flights", "args": {"reservation_id": "X7BYG1", "cabin": "economy", "n": 1.5}},
        {"tool": "send_certificate", "args": {"user_id": "mia_li_3668", "amount": 250}},
    ],
    "mustNotCall": ["transfer_to_human_agents"],
    "why": "The policy lets a silver member change an economy flight; the agent handed over instead.",
}


_CALLER = Caller("bench", Principal("user", "bench"), "bench", "admin")

RUNS_PER_SECOND = 3_500
"""More than pgbench can record on, or the service."""
WARM_SECONDS = 1.0


def main() -> None:
    """Fill, load, compare, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=200_000)
    parser.add_argument("--corrections", type=int, default=1_000_000)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--smoke", action="store_true", help="seconds instead of minutes; the numbers say nothing")
    options = parser.parse_args()
    if options.smoke:
        options.runs, options.corrections, options.seconds, options.rounds = 500, 2_000, 1, 1
    with postgres() as server:
        database = new_database(server, "bench")
        needed = (_enough(options.seconds) + _enough(options.seconds + WARM_SECONDS)) * len(FORMS) * options.rounds
        fill(database, options.runs, options.corrections, fresh=needed)
        print(HEADINGS)
        fresh = options.runs
        for _ in range(options.rounds):
            for name, headers in FORMS.items():
                fresh = one_form(database, name, headers, fresh, options.seconds)


FORMS: dict[str, dict[str, str]] = {"recording": {}, "with an idempotency key": {"Idempotency-Key": "key-@N"}}
"""Each request is the first of its run, so it takes the copy too; and of its key."""

HEADINGS = """
| | requests/s | p50 ms | p99 ms | application CPU ms | database CPU ms | round trips | pgbench/s | its CPU ms | ratio |
|---|---|---|---|---|---|---|---|---|---|"""


def one_form(database: Database, name: str, headers: dict[str, str], fresh: int, seconds: float) -> int:
    """Measure one form on runs that nobody corrected, from number ``fresh`` on; gives the next such number."""
    statements = recording_statements(database, fresh, headers)
    fresh += 1
    # Connection by connection in turn, as the service takes them.
    script = f"\\set r {fresh} + :client_id + 16 * (:n - 1)\n\\set m 100000000000 + :r\n" + script_of(statements)
    ceiling = pgbench(database, script, seconds)
    fresh += _enough(seconds)
    with api(database) as (port, pid):
        sent = {"Authorization": f"Bearer {database.token}", "Content-Type": "application/json", **headers}
        plan = Plan(port, [("POST", "/v1/corrections", json.dumps(BODY))], sent, 16, WARM_SECONDS, seconds, fresh)
        measured = put_load(plan, pid, database.server_pid)
    assert set(measured.outcome.statuses) == {"201"}, measured.outcome.statuses
    report(name, measured, ceiling, len(statements))
    return measured.outcome.last


def _enough(seconds: float) -> int:
    """More runs than can be recorded on in that time."""
    return int((seconds + 0.5) * RUNS_PER_SECOND)


def recording_statements(database: Database, run: int, headers: dict[str, str]) -> list[str]:
    """The statements of recording on a fresh run, with what differs from one to the next as pgbench's variables."""
    body = json.dumps(BODY).replace("@N", str(run)).encode()
    sent = {name: value.replace("@N", str(run)) for name, value in headers.items()}
    statements = statements_of(database, "POST", "/v1/corrections", body, sent)
    (made,) = {match for statement in statements for match in re.findall(r'"id":"([0-9a-f-]{36})"', statement)}
    key = idempotency.key_digest(_CALLER, "POST", "/v1/corrections", f"key-{run}").hex()
    for old, new in ((f"run-{run}", "run-:r"), (made, made[:24] + ":m"), (key, key[:52] + ":m")):
        statements = [statement.replace(old, new) for statement in statements]
    return statements


def report(name: str, measured: Measured, ceiling: Ceiling, round_trips: int) -> None:
    """One row of the table in README.md."""
    outcome = measured.outcome
    print(
        f"| {name} | {outcome.rate:.0f} | {outcome.p50} | {outcome.p99} | {measured.app_ms:.2f} |"
        f" {measured.database_ms:.2f} | {round_trips} | {ceiling.rate:.0f} | {ceiling.database_ms:.2f} |"
        f" {outcome.rate / ceiling.rate:.0%} |",
        flush=True,
    )


if __name__ == "__main__":
    main()

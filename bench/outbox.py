"""From outbox row to done, against a running service: ``python -m bench.outbox DATA``, the folder of ``corrigenda up``.

Idle: one job at a time, at moments that no poll can follow. Busy: many at once. Jobs name corrections that don't exist,
so that what is measured is the way there and back: relay, broker, task, claim, commit. A little more than "to task
start".
"""

from __future__ import annotations

import argparse
import random
import time
import uuid
from pathlib import Path

from sqlalchemy import Engine

from app.domain import jobs
from app.store import outbox, tokens
from app.store.engine import create_engine, reading
from app.transaction import transaction

_SPREAD = """
SELECT count(*), percentile_cont(ARRAY[0.5, 0.99, 1]) WITHIN GROUP (ORDER BY extract(epoch FROM done_at - created_at)),
       extract(epoch FROM max(done_at) - min(created_at))
  FROM outbox WHERE tenant_id = %s
"""


def put(engine: Engine, tenant: str, count: int) -> None:
    """``count`` jobs of a tenant, in one transaction."""
    with transaction(engine) as tx:
        outbox.put(tx, tenant, [jobs.route(f"none-{n}") for n in range(count)])


def report(engine: Engine, tenant: str, name: str) -> None:
    """Wait until all is done and print how long it took."""
    with reading(engine) as db:
        while db.value("SELECT count(*) FROM outbox WHERE tenant_id = %s AND done_at IS NULL", (tenant,)):
            time.sleep(0.2)
        count, spread, seconds = db.row(_SPREAD, (tenant,)) or (0, [0, 0, 0], 1)
    p50, p99, longest = (1000 * float(value) for value in spread)
    rate = f", {count / float(seconds):.0f} jobs/s" if name == "busy" else ""
    print(f"{name}: {count} jobs, p50 {p50:.0f} ms, p99 {p99:.0f} ms, longest {longest:.0f} ms{rate}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--idle", type=int, default=300)
    parser.add_argument("--busy", type=int, default=20_000)
    asked = parser.parse_args()
    engine = create_engine((asked.data / "database-url").read_text().strip())
    for name, count in (("idle", asked.idle), ("busy", asked.busy)):
        tenant = f"bench-{uuid.uuid4().hex[:8]}"
        with transaction(engine) as tx:
            tokens.ensure_tenant(tx, tenant)
        if name == "busy":
            put(engine, tenant, count)
        for _ in range(count if name == "idle" else 0):
            put(engine, tenant, 1)
            time.sleep(random.uniform(0.2, 0.5))
        report(engine, tenant, name)


if __name__ == "__main__":
    main()

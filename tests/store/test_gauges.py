from __future__ import annotations

import re

from sqlalchemy import Engine

from app.domain import jobs
from app.services import route
from app.store import heartbeats, outbox
from app.transaction import transaction
from tests.client import Client
from tests.factories import a_correction


def values(text: str) -> dict[str, float]:
    return {name: float(value) for name, value in re.findall(r"^(\S+) (\S+)$", text, re.MULTILINE)}


def test_metrics_show_how_queues_and_outbox_stand(engine: Engine, tenant: str, anonymous: Client) -> None:
    before = values(anonymous.get("/metrics").text)
    with transaction(engine) as tx:
        route.sync(tx, tenant, [a_correction(engine, tenant)])
        outbox.put(tx, tenant, [jobs.route("1")])
        heartbeats.beat(tx, "relay")
    after = values(anonymous.get("/metrics").text)
    ready = 'corrigenda_work_items{queue="improve",state="ready"}'
    assert after[ready] == before.get(ready, 0) + 1
    for state in ("pending", "announcement"):
        name = f'corrigenda_outbox_jobs{{state="{state}"}}'
        assert after[name] == before[name] + 1
    assert after["corrigenda_outbox_lag_seconds"] > 0
    assert after['corrigenda_seen_seconds{process="relay"}'] < 60

"""How the service stands, over all tenants, for Prometheus."""

from __future__ import annotations

from collections.abc import Iterator

from app.metrics import Gauge
from app.store import heartbeats, outbox, work
from app.store.engine import Db


def gauges_of(db: Db) -> Iterator[Gauge]:
    """What waits in queues and outbox, how long the oldest has, and when processes were last seen at work."""
    for depth in work.depths(db):
        labels = {"queue": depth.queue, "state": depth.state}
        yield Gauge("corrigenda_work_items", "Work items that aren't ended.", depth.count, labels)
        yield Gauge("corrigenda_work_oldest_seconds", "Age of the oldest of them.", depth.oldest_seconds, labels)
    lag = outbox.lag(db)
    counts = {"pending": lag.pending, "dead": lag.dead, "announcement": lag.announcements}
    for state, count in counts.items():
        yield Gauge("corrigenda_outbox_jobs", "Jobs that aren't done.", count, {"state": state})
    yield Gauge("corrigenda_outbox_lag_seconds", "Age of the oldest job that waits for a worker.", lag.seconds)
    for name, seconds in heartbeats.seconds_since(db).items():
        yield Gauge("corrigenda_seen_seconds", "Time since it was last seen at work.", seconds, {"process": name})

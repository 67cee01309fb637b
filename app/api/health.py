"""``/healthz``, ``/readyz`` and ``/metrics``: for those who run the service. They need no token."""

from __future__ import annotations

from typing import Any

import psycopg2
import redis

from app import metrics
from app.api.routes import Answer, Call, Routes, answer
from app.api.schemas.health import Alive, Ready
from app.domain.errors import DatabaseBusy, NotReady
from app.store.engine import RETRY_SECONDS, Db
from app.store.gauges import gauges_of
from app.store.migrate import schema_of

routes = Routes("operation")

_BROKER_SECONDS = 1.0
METRICS = "text/plain; version=0.0.4; charset=utf-8"


@routes.add("GET", "/healthz", answers={200: Alive}, public=True)
def healthz(call: Call) -> Answer:
    """Whether this process is alive. It looks at nothing else."""
    return answer({"status": "alive"})


@routes.add("GET", "/readyz", answers={200: Ready}, errors=(NotReady,), public=True)
def readyz(call: Call) -> Answer:
    """Whether requests can be served: the database is reachable and migrated.

    The broker's state is shown and not required: without it, recording goes on and work waits.
    """
    database, broker = _database(call.db), _broker(call.service.settings.redis_url)
    if database["state"] != "ready":
        raise NotReady("The database isn't ready.", retryAfter=RETRY_SECONDS, database=database, broker=broker)
    return answer({"status": "ready", "database": database, "broker": broker})


@routes.add("GET", "/metrics", answers={200: None}, public=True, media_types=(METRICS,))
def show_metrics(call: Call) -> Answer:
    """What Prometheus scrapes. Without the database, what this machine's processes counted is still shown."""
    try:
        gauges = list(gauges_of(call.db))
    except (DatabaseBusy, psycopg2.Error):
        gauges = []
    return Answer(200, metrics.exposed(gauges), content_type=METRICS)


def _database(db: Db) -> dict[str, Any]:
    try:
        schema = schema_of(db)
    except (DatabaseBusy, psycopg2.Error):
        return {"state": "unreachable"}
    state = "ready" if schema.ready else "not-migrated"
    return {"state": state, "revision": schema.current or "none", "needs": schema.head}


def _broker(url: str) -> dict[str, str]:
    if not url:
        return {"state": "not-configured"}
    seconds = {"socket_connect_timeout": _BROKER_SECONDS, "socket_timeout": _BROKER_SECONDS}
    try:
        with redis.Redis.from_url(url.replace("redis+socket://", "unix://", 1), **seconds) as client:
            client.ping()
    except (redis.RedisError, OSError, ValueError):
        return {"state": "unreachable"}
    return {"state": "reachable"}

"""What Prometheus is told of requests. Processes of one machine share their counters through a folder."""

from __future__ import annotations

import time

from prometheus_client import Counter, Histogram

from app.api.routes import Route

REQUESTS = Counter("corrigenda_requests_total", "Requests by route and status.", ["method", "route", "status"])
SECONDS = Histogram("corrigenda_request_seconds", "Time to answer, by route.", ["method", "route"])


def now() -> float:
    """A moment for measuring from."""
    return time.perf_counter()


def observe_request(method: str, route: Route | None, status: int, started: float) -> None:
    """Count one answered request."""
    name = route.path if route else "unknown"
    REQUESTS.labels(method, name, str(status)).inc()
    SECONDS.labels(method, name).observe(time.perf_counter() - started)

"""What Prometheus is told. The processes of one machine share their counters through a folder, when there is one.

A composition root calls ``share`` before anything is counted; instruments are made on first use.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from prometheus_client import CollectorRegistry, Counter, Histogram, Metric, generate_latest, values
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

from app.failure import Failure
from app.metrics_folder import Member, undisturbed

_FOLDER = "PROMETHEUS_MULTIPROC_DIR"
"""Where prometheus-client looks for the folder whenever it opens a file there."""

_own = CollectorRegistry()


@dataclass(frozen=True, slots=True)
class Instruments:
    """Everything that is counted."""

    requests: Counter
    request_seconds: Histogram
    tasks: Counter
    task_seconds: Histogram
    jobs: Counter
    sent: Counter
    transitions: Counter
    deliveries: Counter


def share(folder: str) -> None:
    """Keep this process's counters in ``folder`` (made if need be), from which any process shows those of all.

    :raises Failure: if it can't be used.
    """
    make_folder(folder)
    os.environ[_FOLDER] = folder
    values.ValueClass = values.MultiProcessValue(Member(Path(folder)).name)  # type: ignore[no-untyped-call]


def make_folder(folder: str) -> None:
    """Make ``folder`` if need be.

    :raises Failure: if processes can't share their counters there.
    """
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
        with undisturbed(Path(folder)):
            return
    except OSError as error:
        raise Failure(f"CORRIGENDA_METRICS_DIR can't be used: {folder}: {error.strerror}.") from error


@cache
def instruments() -> Instruments:
    """The instruments of this process."""
    return Instruments(
        Counter("corrigenda_requests", "Requests answered.", ["method", "route", "status"], registry=_own),
        Histogram("corrigenda_request_seconds", "Seconds to answer.", ["method", "route"], registry=_own),
        Counter("corrigenda_tasks", "Tasks that ended: done, failed or retried.", ["task", "outcome"], registry=_own),
        Histogram("corrigenda_task_seconds", "Seconds that a task took.", ["task"], registry=_own),
        Counter(
            "corrigenda_jobs", "Jobs that were done, failed, or died of failing.", ["job", "outcome"], registry=_own
        ),
        Counter("corrigenda_sent_jobs", "Jobs that the relay sent, repeats among them.", ["job"], registry=_own),
        Counter("corrigenda_transitions", "Corrections moved by an event: fixed or reopened.", ["kind"], registry=_own),
        Counter("corrigenda_deliveries", "Attempts to deliver a notice.", ["kind", "outcome"], registry=_own),
    )


def now() -> float:
    """A moment for measuring from, in seconds."""
    return time.perf_counter()


def request(method: str, route: str, status: int, seconds: float) -> None:
    """Count one answered request. ``route`` is its pattern, not its path."""
    made = instruments()
    made.requests.labels(method, route, str(status)).inc()
    made.request_seconds.labels(method, route).observe(seconds)


def task(name: str, outcome: str, seconds: float) -> None:
    """Count one task that ended as ``done``, ``failed`` or ``retried``."""
    made = instruments()
    made.tasks.labels(name, outcome).inc()
    made.task_seconds.labels(name).observe(seconds)


def jobs(name: str, outcome: str, count: int) -> None:
    """Count jobs that are ``done``, that ``failed`` and come again, or that are ``dead``."""
    instruments().jobs.labels(name, outcome).inc(count)


def sent(name: str, count: int) -> None:
    """Count jobs that the relay sent."""
    instruments().sent.labels(name).inc(count)


def transitions(kind: str, count: int) -> None:
    """Count corrections that an event ``fixed`` or ``reopened``."""
    instruments().transitions.labels(kind).inc(count)


def delivery(kind: str, outcome: str) -> None:
    """Count one attempt to deliver by ``webhook``, ``email`` or ``slack``: ``delivered`` or ``failed``."""
    instruments().deliveries.labels(kind, outcome).inc()


@dataclass(frozen=True, slots=True)
class Gauge:
    """How something stands now: ``value`` under ``name``, for each set of ``labels``."""

    name: str
    meaning: str
    value: float
    labels: Mapping[str, str] = field(default_factory=dict)


class _Gauges(Collector):
    def __init__(self, gauges: Iterable[Gauge]) -> None:
        self._gauges = gauges

    def collect(self) -> Iterable[Metric]:
        families: dict[str, GaugeMetricFamily] = {}
        for gauge in self._gauges:
            family = families.setdefault(
                gauge.name, GaugeMetricFamily(gauge.name, gauge.meaning, labels=list(gauge.labels))
            )
            family.add_metric(list(gauge.labels.values()), gauge.value)
        return families.values()


def exposed(gauges: Iterable[Gauge] = ()) -> bytes:
    """All counters, of all processes that share the folder, and ``gauges``, in Prometheus's text format."""
    instruments()
    folder, shown = os.environ.get(_FOLDER), CollectorRegistry()
    shown.register(_Gauges(gauges))
    if not folder:
        return generate_latest(_own) + generate_latest(shown)
    MultiProcessCollector(shown, path=folder)  # type: ignore[no-untyped-call]
    with undisturbed(Path(folder)):
        return generate_latest(shown)

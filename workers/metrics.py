"""What Prometheus is told of tasks and of the relay. Processes of one machine share their counters through a folder."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from prometheus_client import Counter, Histogram

TASK_SECONDS = Histogram("corrigenda_task_seconds", "Time that a task took.", ["task"])
JOBS = Counter("corrigenda_jobs_total", "Jobs by what became of them: done, failed, dead, put-off.", ["job", "outcome"])
TASK_FAILURES = Counter("corrigenda_task_failures_total", "Tasks that ended with an error.", ["task"])
SENT = Counter("corrigenda_relay_sent_total", "Jobs that the relay sent, again ones too.", ["job"])
MESSAGES = Counter("corrigenda_relay_messages_total", "Messages that the relay published.", ["queue"])


@contextmanager
def timed(task: str) -> Iterator[None]:
    """Measure one task, and count it when it raises."""
    started = time.perf_counter()
    try:
        yield
    except BaseException:
        TASK_FAILURES.labels(task).inc()
        raise
    finally:
        TASK_SECONDS.labels(task).observe(time.perf_counter() - started)


def done(job: str, count: int) -> None:
    """``count`` jobs took effect."""
    JOBS.labels(job, "done").inc(count)


def failed(job: str, dead: bool) -> None:
    """A job failed, for good if ``dead``."""
    JOBS.labels(job, "failed").inc()
    if dead:
        JOBS.labels(job, "dead").inc()


def put_off(job: str, count: int) -> None:
    """``count`` jobs were left to come again: the database was away."""
    JOBS.labels(job, "put-off").inc(count)


def sent(job: str, queue: str, count: int) -> None:
    """One message with ``count`` jobs was published."""
    SENT.labels(job).inc(count)
    MESSAGES.labels(queue).inc()

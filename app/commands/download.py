"""What the service streams, into a file or to standard output."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterable
from pathlib import Path

from app.failure import Failure
from app.remote import Remote

Params = list[tuple[str, str]]


def named(filters: Iterable[str]) -> Params:
    """``NAME=VALUE`` options as parameters of a query.

    :raises Failure: for one that isn't such.
    """
    params = []
    for text in filters:
        name, equals, value = text.partition("=")
        if not equals:
            raise Failure(f"--filter {text} isn't NAME=VALUE.")
        params.append((name, value))
    return params


def download(remote: Remote, path: str, params: Params, output: Path | None) -> None:
    """Write what is at ``path`` to ``output``, which is there only when it is whole; else to standard output.

    :raises Failure: if the service fails, or ``output`` can't be written.
    """
    with remote.streamed(path, params) as pieces:
        if output is None:
            for piece in pieces:
                sys.stdout.buffer.write(piece)
            sys.stdout.buffer.flush()
            return
        _write(pieces, output)


def _write(pieces: Iterable[bytes], output: Path) -> None:
    fresh = output.with_name(output.name + ".part")
    try:
        with fresh.open("wb") as file:
            file.writelines(pieces)
        fresh.replace(output)
    except OSError as error:
        raise Failure(f"{output} can't be written: {error.strerror}.") from error
    finally:
        with contextlib.suppress(OSError):
            fresh.unlink()

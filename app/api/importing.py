"""Runs by the line: a request of any length in, an answer a line out, in constant memory."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

import orjson
from sqlalchemy import Engine
from werkzeug.wsgi import LimitedStream

from app import log
from app.api import errors
from app.api.bodies import load_body
from app.api.limits import too_large
from app.api.schemas.runs import RunLine, content_of
from app.domain import json_text
from app.domain.errors import InternalError, Refused
from app.domain.model import Caller
from app.services.ingest import put_run
from app.transaction import transaction

_CHUNK = 64 * 1024
_SHORT = 16 * 1024
_LINE = RunLine()


def line_reader(stream: Any, content_length: int | None, limit: int) -> Any:
    """``stream`` with a ``readline(size)`` that is fast, and doesn't wait for more than the line that it gives.

    Granian's takes no notice of ``size``: a body that is known to be long is read by blocks instead, and one of unknown
    length with care.
    """
    if isinstance(stream, io.RawIOBase):
        return io.BufferedReader(stream, _CHUNK)
    if content_length is None:
        return _Unmeasured(stream)
    if content_length > 4 * limit:
        return io.BufferedReader(_Measured(stream, content_length), _CHUNK)
    return stream


class _Measured(LimitedStream):
    """A body of known length. One that breaks off ends there: lines that came are taken, as any other body's are."""

    def on_disconnect(self, error: Exception | None = None) -> None:
        if error is not None:
            super().on_disconnect(error)


class _Unmeasured:
    """The lines of a body of unknown length, of which no more than a block is held.

    Whoever sends a line and waits for its answer would wait for ever if we waited for a block to fill. So a line is
    read byte by byte, and by blocks only once it is long.
    """

    def __init__(self, stream: Any) -> None:
        self._read = stream.read
        self._block = io.BytesIO()
        self._length = 0

    def readline(self, size: int) -> bytes:
        """Up to ``size`` bytes of a line, with its end when that comes; none at the end of the body."""
        part = self._block.readline(size) or self._more(size)
        self._length = 0 if part.endswith(b"\n") else self._length + len(part)
        return part

    def _more(self, size: int) -> bytes:
        if self._length >= _SHORT:
            self._block = io.BytesIO(self._read(_CHUNK))
            return self._block.readline(size)
        part = bytearray()
        while len(part) < min(size, _SHORT) and (byte := self._read(1)):
            part += byte
            if byte == b"\n":
                break
        return bytes(part)


def lines_of(stream: Any, limit: int) -> Iterator[bytes | None]:
    """The lines of ``stream`` without their ends; ``None`` for one over ``limit`` bytes, which isn't kept."""
    parts: list[bytes] = []
    size = 0
    while part := stream.readline(_CHUNK):
        ended = part.endswith(b"\n")
        part = part.rstrip(b"\r\n") if ended else part
        size += len(part)
        parts.append(part)
        if size > limit:
            parts.clear()
        if ended:
            yield b"".join(parts) if size <= limit else None
            parts, size = [], 0
    if size:
        yield b"".join(parts) if size <= limit else None


class Import:
    """One import by one caller."""

    def __init__(self, engine: Engine, caller: Caller, limit: int) -> None:
        self._engine = engine
        self._caller = caller
        self._limit = limit
        self._totals = {"created": 0, "updated": 0, "unchanged": 0, "error": 0}

    def answers(self, stream: Any) -> Iterator[bytes]:
        """A line for each line of ``stream`` that isn't blank, then the totals."""
        for number, line in enumerate(lines_of(stream, self._limit), 1):
            if line is not None and not line.strip():
                continue
            outcome = {"line": number} | self._outcome(line)
            self._totals[outcome["result"]] += 1
            yield orjson.dumps(outcome) + b"\n"
        yield orjson.dumps({"totals": self._totals}) + b"\n"

    def _outcome(self, line: bytes | None) -> dict[str, Any]:
        try:
            if line is None:
                raise too_large(self._limit)
            body = load_body(_LINE, line)
            with transaction(self._engine) as tx:
                result = put_run(tx, self._caller, body["id"], content_of(body))
            return {"id": body["id"], "result": result}
        except Refused as error:
            refused = error
        except Exception as error:  # a line that fails stops nothing
            log.log.error("line of an import failed", exc_info=error)
            refused = InternalError("Something went wrong on our side; the request id finds it in our log.")
        return _id_of(line) | {"result": "error", "error": errors.body_of(refused)}


def _id_of(line: bytes | None) -> dict[str, str]:
    """The id that a refused line has, as far as it can be told."""
    try:
        sent = json_text.parse(json_text.members((line or b"").decode())["id"])
    except (ValueError, KeyError):
        return {}
    return {"id": errors.sane(sent)} if isinstance(sent, str) and len(sent) <= 256 else {}

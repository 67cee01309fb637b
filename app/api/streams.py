"""Bodies of any size in constant memory, straight from one read of the database."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator

from app import log
from app.api.routes import Answer, Call
from app.store.engine import Params, Row, streaming

CHUNK = 64 * 1024


def download(file_name: str, content_type: str, body: Iterable[bytes]) -> Answer:
    """``body`` as a file that a browser saves."""
    return Answer(200, body, content_type, {"Content-Disposition": f'attachment; filename="{file_name}"'})


class Stream:
    """The chunks of a body, the first made at once: what fails before it is an error answer, not a broken body.

    What fails later breaks the connection off, so that half a body never looks like a whole one. ``close`` (the server
    calls it when the client goes away too) gives back what the chunks were read from.
    """

    def __init__(self, chunks: Generator[bytes, None, None]) -> None:
        self._chunks = chunks
        self._first: bytes | None = next(chunks, b"")

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        if self._first is not None:
            first, self._first = self._first, None
            return first
        try:
            return next(self._chunks)
        except StopIteration:
            raise
        except Exception:
            log.log.error("a stream broke off", exc_info=True)
            raise

    def close(self) -> None:
        self._chunks.close()


def stream(
    call: Call, sql: str, params: Params, show: Callable[[Iterator[Row]], Iterable[str]], batch: int = 500
) -> Stream:
    """What ``show`` makes of the statement's rows, read over one connection. ``batch`` rows are in memory at a time."""

    def chunks() -> Generator[bytes, None, None]:
        with streaming(call.service.engine, sql, params, batch) as rows:
            yield from packed(show(rows))

    call.let_go()
    return Stream(chunks())


def packed(pieces: Iterable[str]) -> Iterator[bytes]:
    """``pieces`` in chunks of about ``CHUNK`` characters: few enough to be sent cheaply."""
    held: list[str] = []
    size = 0
    for piece in pieces:
        held.append(piece)
        size += len(piece)
        if size >= CHUNK:
            yield "".join(held).encode()
            held, size = [], 0
    if held:
        yield "".join(held).encode()

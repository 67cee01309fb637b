"""Answers that run ahead of whoever reads them."""

from __future__ import annotations

import contextvars
import tempfile
import threading
from collections.abc import Iterable, Iterator

from app import log

_IN_MEMORY = 1024 * 1024
_READ = 64 * 1024


def ahead(source: Iterable[bytes]) -> Iterator[bytes]:
    """What ``source`` gives, made in a thread of its own whether it is read or not.

    A client that sends a whole request before it reads any of the answer would wait for us for ever, and we for it,
    once the buffers between us are full. What isn't read yet waits in memory up to a mebibyte, then on disk.
    """
    context = contextvars.copy_context()
    with tempfile.SpooledTemporaryFile(_IN_MEMORY) as file:
        waiting = _Waiting(file)
        threading.Thread(target=context.run, args=(_fill, source, waiting), daemon=True).start()
        try:
            while part := waiting.take():
                yield part
        finally:
            waiting.leave()


def _fill(source: Iterable[bytes], waiting: _Waiting) -> None:
    failure: BaseException | None = None
    try:
        for part in source:
            if not waiting.put(part):
                return
    except BaseException as error:  # raised again where the answer is read
        log.log.warning("an answer broke off", exc_info=error)
        failure = error
    finally:
        waiting.end(failure)


class _Waiting:
    """Bytes put by one thread and taken by another. Its file never holds more than what waits."""

    def __init__(self, file: tempfile.SpooledTemporaryFile[bytes]) -> None:
        self._changed = threading.Condition()
        self._file = file
        self._taken = self._put = 0
        self._ended = self._left = False
        self._failure: BaseException | None = None

    def put(self, part: bytes) -> bool:
        """Add ``part``; false if nobody will take it."""
        with self._changed:
            if self._left:
                return False
            self._file.seek(self._put)
            self._file.write(part)
            self._put += len(part)
            self._changed.notify()
            return True

    def take(self) -> bytes:
        """The next bytes, once there are some; none at the end. Raises what the source raised."""
        with self._changed:
            self._changed.wait_for(lambda: self._put > self._taken or self._ended)
            self._file.seek(self._taken)
            part = self._file.read(_READ)
            self._taken += len(part)
            if self._taken == self._put:
                self._file.seek(0)
                self._file.truncate()
                self._taken = self._put = 0
            if not part and self._failure is not None:
                raise self._failure
            return part

    def end(self, failure: BaseException | None) -> None:
        with self._changed:
            self._ended, self._failure = True, failure
            self._changed.notify()

    def leave(self) -> None:
        with self._changed:
            self._left = True

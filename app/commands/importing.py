"""``corrigenda import``: files of runs and corrections into a running service.

Safe to repeat, whole or in part; goes on where an earlier try stopped.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import click
import httpx

from app.commands.services import of_service, service
from app.failure import Failure
from app.remote import Remote, accepted, error_of

_LINES, _BYTES = 200, 4 * 1024 * 1024
"""Most lines and bytes of one request with runs."""

_SHOWN_ERRORS = 20
_PASSING = "database-busy"
_TRIES = 6
_NOTE_SECONDS = 1.0


@dataclass(slots=True)
class Line:
    """One line of a file. ``end``: where the next one starts, in bytes."""

    number: int
    text: bytes
    end: int


@dataclass(slots=True)
class Progress:
    """How far a file is in: ``line`` lines, ``offset`` bytes; and what became of them."""

    size: int
    changed: int
    line: int = 0
    offset: int = 0
    counts: dict[str, int] = field(default_factory=dict)

    def passed(self, line: Line, result: str) -> None:
        self.line, self.offset = line.number, line.end
        self.counts[result] = self.counts.get(result, 0) + 1

    @property
    def summary(self) -> str:
        return ", ".join(f"{count} {result}" for result, count in sorted(self.counts.items())) or "nothing"


class Note:
    """Keeps the progress of one file into one service, until it is in."""

    def __init__(self, kind: str, url: str, file: Path) -> None:
        base = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
        name = hashlib.sha256("\n".join((kind, url, str(file.resolve()))).encode()).hexdigest()[:24]
        self._path = base / "corrigenda" / "imports" / f"{name}.json"
        found = file.stat()
        self._fresh = Progress(found.st_size, found.st_mtime_ns)
        self._written = 0.0

    def read(self) -> Progress:
        """The progress of an earlier try with the same file, else none."""
        try:
            kept = Progress(**json.loads(self._path.read_text("utf-8")))
        except (OSError, ValueError, TypeError):
            return self._fresh
        same = (kept.size, kept.changed) == (self._fresh.size, self._fresh.changed)
        return kept if same else self._fresh

    def write(self, progress: Progress, at_most_every: float = 0) -> None:
        """Where it can't be kept, the next try starts at the first line: slower, and to the same effect."""
        if time.monotonic() < self._written + at_most_every:
            return
        self._written = time.monotonic()
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            fresh = self._path.with_suffix(".new")
            fresh.write_text(json.dumps(asdict(progress)), "utf-8")
            fresh.replace(self._path)
        except OSError:
            return

    def drop(self) -> None:
        self._path.unlink(missing_ok=True)


class Importer:
    """One file on its way in. ``send`` gives the result of each of some lines: a word, or ``error: …``."""

    kind: str

    def __init__(self, remote: Remote) -> None:
        self._remote = remote

    def batches(self, lines: Iterable[Line]) -> Iterator[list[Line]]:
        raise NotImplementedError

    def send(self, lines: list[Line]) -> Iterator[tuple[Line, str]]:
        raise NotImplementedError


class Runs(Importer):
    kind = "runs"

    def batches(self, lines: Iterable[Line]) -> Iterator[list[Line]]:
        batch: list[Line] = []
        size = 0
        for line in lines:
            if batch and (len(batch) == _LINES or size + len(line.text) > _BYTES):
                yield batch
                batch, size = [], 0
            batch.append(line)
            size += len(line.text)
        if batch:
            yield batch

    def send(self, lines: list[Line]) -> Iterator[tuple[Line, str]]:
        for attempt in range(_TRIES):
            for line, row in self._answers(lines):
                if row["result"] == "error" and row["error"]["code"] == _PASSING:
                    lines = lines[lines.index(line) :]
                    break
                yield line, _result(row)
            else:
                return
            time.sleep(2.0**attempt / 4)
        raise Failure("the database is too busy")

    def _answers(self, lines: list[Line]) -> Iterator[tuple[Line, dict[str, Any]]]:
        body = b"".join(line.text + b"\n" for line in lines)
        headers = {"Content-Type": "application/x-ndjson"}
        answer = accepted(self._remote.send("POST", "/v1/runs/import", content=body, headers=headers))
        rows = [json.loads(text) for text in answer.text.splitlines()]
        yield from ((lines[row["line"] - 1], row) for row in rows if "line" in row)
        if not rows or "totals" not in rows[-1]:
            raise Failure("the service's answer broke off")


class Corrections(Importer):
    kind = "corrections"

    def batches(self, lines: Iterable[Line]) -> Iterator[list[Line]]:
        return ([line] for line in lines)

    def send(self, lines: list[Line]) -> Iterator[tuple[Line, str]]:
        for line in lines:
            key = "import-" + hashlib.sha256(line.text).hexdigest()
            answer = self._remote.send(
                "POST",
                "/v1/corrections",
                content=line.text,
                headers={"Content-Type": "application/json", "Idempotency-Key": key},
            )
            if answer.status_code >= 500:
                raise Failure(error_of(answer))
            yield line, _outcome(answer)


def _result(row: dict[str, Any]) -> str:
    if row["result"] != "error":
        return str(row["result"])
    return f"error: {row['error']['code']}: {row['error']['message']}"


def _outcome(answer: httpx.Response) -> str:
    if not answer.is_success:
        return f"error: {error_of(answer)}"
    return "repeated" if "X-Idempotent-Replay" in answer.headers else "recorded"


def run(importer: Importer, file: Path, note: Note) -> Progress:
    """Send ``file`` from where an earlier try stopped. Says each line that is refused, to a limit.

    :raises Failure: if the service fails in between; the progress is kept.
    """
    progress = note.read()
    if progress.line:
        click.echo(f"Going on after line {progress.line}: {progress.summary} so far.", err=True)
    refused: list[str] = []
    try:
        bar = click.progressbar(length=progress.size, label=file.name, file=sys.stderr)
        with file.open("rb") as source, bar:
            bar.update(progress.offset)
            for line, result in _results(importer, source, progress):
                word, _, why = result.partition(": ")
                if why and len(refused) <= _SHOWN_ERRORS:
                    refused.append(f"line {line.number}: {why}" if len(refused) < _SHOWN_ERRORS else "and more")
                bar.update(line.end - progress.offset)
                progress.passed(line, word)
                note.write(progress, at_most_every=_NOTE_SECONDS)
    except BaseException:
        note.write(progress)
        raise
    finally:
        for text in refused:
            click.echo(text, err=True)
    note.drop()
    return progress


def _results(importer: Importer, source: BinaryIO, progress: Progress) -> Iterator[tuple[Line, str]]:
    for batch in importer.batches(_lines(source, progress)):
        yield from importer.send(batch)


def _lines(source: BinaryIO, progress: Progress) -> Iterator[Line]:
    source.seek(progress.offset)
    end = progress.offset
    for number in itertools.count(progress.line + 1):
        raw = source.readline()
        if not raw:
            return
        end += len(raw)
        if raw.strip():
            yield Line(number, raw.rstrip(b"\r\n"), end)


@click.group("import")
def import_() -> None:
    """Take runs or corrections in, from a file with one JSON object a line."""


def _command(kind: type[Importer]) -> None:
    @import_.command(kind.kind)
    @click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
    @click.option("--again", is_flag=True, help="Start at the first line, whatever an earlier try did.")
    @of_service
    def command(file: Path, again: bool, url: str | None, token: str | None) -> None:
        with service(url, token) as remote:
            note = Note(kind.kind, remote.url, file)
            if again:
                note.drop()
            try:
                progress = run(kind(remote), file, note)
            except (Failure, KeyboardInterrupt) as error:
                why = str(error).rstrip(".") or "interrupted"
                raise Failure(f"{why}. The same command goes on after line {note.read().line}.") from error
        click.echo(f"{file}: {progress.summary}.")
        if progress.counts.get("error"):
            raise Failure(f"{progress.counts['error']} lines were refused.")

    command.help = f"Send {kind.kind} to a running service. Safe to repeat; goes on where it broke off."


_command(Runs)
_command(Corrections)

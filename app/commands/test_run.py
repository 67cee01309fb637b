"""``corrigenda test-run``: what a pipeline's tests found, told to the service; and whether the release may go on."""

from __future__ import annotations

import time
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TextIO

import click

from app.commands.services import of_service, service
from app.domain import json_text
from app.domain.errors import BadInput
from app.domain.judging import Correction, Judge, Judgement
from app.failure import Failure
from app.remote import Remote, accepted

HELD = 3
"""The exit code when the release must not go on. (1: it couldn't be found out; 2: wrong options.)"""

_MOST_RESULTS = 10_000
_SHOWN = 20
_LOOK_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Tested:
    """What was tested: the agent or flow ``id`` at ``version``, as ``project`` uses it."""

    project: str
    kind: str
    id: str
    version: str


@click.group()
def test_run() -> None:
    """What tests found, for the corrections that they tested."""


@test_run.command()
@click.argument("file", type=click.File("r", encoding="utf-8"))
@click.option("--project", required=True, help="The project that the tests were for.")
@click.option("--agent", help="The agent that was tested.")
@click.option("--flow", help="The flow that was tested.")
@click.option("--version", required=True, help="The version that was tested.")
@click.option("--source", help="Where the results come from, such as the address of the pipeline's run.")
@click.option(
    "--fail-on",
    type=click.Choice(["wrong-again", "wrong", "never"]),
    default="wrong-again",
    show_default=True,
    help="Hold the release: if what stood fixed is wrong, if anything is wrong, or never.",
)
@click.option("--wait", type=click.IntRange(0), default=60, show_default=True, help="Seconds for workers to apply it.")
@of_service
def report(
    file: TextIO,
    project: str,
    agent: str | None,
    flow: str | None,
    version: str,
    source: str | None,
    fail_on: str,
    wait: int,
    url: str | None,
    token: str | None,
) -> None:
    """Report the results in FILE (- for standard input), one JSON object a line or one JSON array.

    A result names a correctionId or a runId (it then counts for every live correction of that run), and says
    "verdict": "right" or "wrong", or "observed": {"calls": [{"tool", "args"}]} and "answerVerdict", for the calls to be
    held against what the corrections ask for.

    Exits with 3 when the release should be held.
    """
    if (agent is None) == (flow is None):
        raise click.UsageError("Name either --agent or --flow.")
    tested = Tested(project, "flow" if flow else "agent", flow or agent or "", version)
    said = results_of(file.read())
    with service(url, token) as remote:
        judgements = judged(said, live_corrections(remote, tested, said))
        if not judgements:
            raise Failure(f"Nothing in {file.name} is of a live correction of this {tested.kind} in this project.")
        counts: Counter[str] = Counter()
        starts = range(0, len(judgements), _MOST_RESULTS)
        for taken in [send(remote, tested, source, judgements[at : at + _MOST_RESULTS]) for at in starts]:
            counts.update(applied(remote, taken, wait))
    click.echo(", ".join(f"{number} {name}" for name, number in counts.items()))
    hold(judgements, fail_on)


def results_of(text: str) -> list[dict[str, Any]]:
    """The results in a file of JSON Lines, or of one JSON array.

    :raises Failure: naming the line that is none.
    """
    lines = json_text.elements(text) if text.lstrip().startswith("[") else text.splitlines()
    found = []
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                result = json_text.parse(line)
            except json_text.NotJson as error:
                raise Failure(f"Result {number} is not JSON: {error}.") from None
            if not isinstance(result, dict):
                raise Failure(f"Result {number} is not a JSON object.")
            found.append(result)
    return found


def live_corrections(remote: Remote, tested: Tested, said: Iterable[dict[str, Any]]) -> list[Correction]:
    """The live corrections of what was tested that ``said`` may be about."""
    named = {result.get(name) for result in said for name in ("runId", "correctionId")}
    params = [("scopeKind", "project"), ("scopeId", tested.project), (f"{tested.kind}Id", tested.id)]
    with remote.streamed("/v1/corrections/export", params) as pieces:
        rows = (json_text.parse(line) for line in _lines(pieces))
        return [row for row in rows if row["runId"] in named or row["id"] in named]


def _lines(pieces: Iterable[bytes]) -> Iterator[str]:
    rest = b""
    for piece in pieces:
        *whole, rest = (rest + piece).split(b"\n")
        for line in whole:
            yield line.decode()


def judged(said: Iterable[dict[str, Any]], corrections: Iterable[Correction]) -> list[Judgement]:
    """What the results come to, each correction once.

    :raises Failure: naming the result that can't be told, or that judges what another one did.
    """
    judge = Judge(corrections)
    first: dict[str, int] = {}
    found = []
    for number, result in enumerate(said, 1):
        try:
            told = judge.judge(result)
        except BadInput as error:
            raise Failure(f"Result {number}: {error.message}") from None
        for judgement in told:
            correction_id = judgement.result["correctionId"]
            if first.setdefault(correction_id, number) != number:
                raise Failure(f"Results {first[correction_id]} and {number} both judge correction {correction_id}.")
        found += told
    return found


def send(remote: Remote, tested: Tested, source: str | None, judgements: Sequence[Judgement]) -> str:
    """Report one test run. Gives its id."""
    body = {
        "projectId": tested.project,
        "subject": {"kind": tested.kind, "id": tested.id, "version": tested.version},
        "results": [judgement.result for judgement in judgements],
    } | ({"source": source} if source else {})
    headers = {"Content-Type": "application/json", "Idempotency-Key": str(uuid.uuid4())}
    answer = remote.send("POST", "/v1/test-runs", content=json_text.dump(body).encode(), headers=headers)
    taken: str = accepted(answer).json()["id"]
    return taken


def applied(remote: Remote, test_run_id: str, wait: int) -> dict[str, int]:
    """What came of a test run, so far if ``wait`` seconds are not enough."""
    deadline = time.monotonic() + wait
    while True:
        shown = remote.get(f"/v1/test-runs/{test_run_id}")
        late = time.monotonic() >= deadline
        if shown["status"] == "applied" or late:
            click.echo(f"Test run {test_run_id}: {shown['status']}")
            counts: dict[str, int] = shown["counts"]
            return counts
        time.sleep(_LOOK_SECONDS)


def hold(judgements: Iterable[Judgement], fail_on: str) -> None:
    """Say what is wrong, and end with ``HELD`` if that holds the release."""
    wrong = [judgement for judgement in judgements if judgement.verdict == "wrong"]
    again = [judgement for judgement in wrong if judgement.wrong_again]
    for judgement in again[:_SHOWN]:
        correction = judgement.correction or {}
        click.echo(f"Wrong again: correction {correction['id']} of run {correction['runId']}", err=True)
    if len(again) > _SHOWN:
        click.echo(f"… and {len(again) - _SHOWN} more", err=True)
    held = {"wrong-again": again, "wrong": wrong, "never": []}[fail_on]
    if held:
        raise SystemExit(HELD)

"""What waits for Improve is handed over as briefs: once, whole, signed, and again later when nobody took it."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine

from app.channels.guard import Guard
from app.channels.http import Http
from app.channels.improver import Endpoint, Function, Improver
from app.config import Settings
from app.domain.jobs import IMPROVE, NOTIFY
from app.domain.model import Subject
from app.failure import Failure
from app.services import improve
from app.store.engine import reading
from app.transaction import transaction
from examples.improver.improver import server
from tests.client import Client
from tests.factories import a_run
from tests.lifecycle import WRONG_ANSWER, WRONG_DECISIONS
from tests.receiver import HANG, receiving, signed_by
from tests.work import Work
from workers.improve import Improving, find_improver
from workers.task import Runner

SECRET = "whsec_" + "c2VjcmV0" * 4


class Collector:
    """An improver that keeps its briefs. ``does`` is done with each first; then it answers."""

    def __init__(self, answer: Any = None, does: Callable[[dict[str, Any]], None] = lambda _: None) -> None:
        self.answer, self.does = answer, does
        self.briefs: list[dict[str, Any]] = []

    def __call__(self, brief: dict[str, Any]) -> Any:
        self.briefs.append(brief)
        self.does(brief)
        return self.answer


@pytest.fixture
def work(admin: Client, engine: Engine) -> Work:
    return Work(admin, engine)


@pytest.fixture
def run(settings: Settings, work: Work) -> Callable[..., None]:
    """Lets a worker hear of corrections: ``run(improver, *ids)``."""

    def run(improver: Improver, *corrections: str) -> None:
        Improving(Runner(settings), improver, 5).run(work.tenant, corrections)

    return run


def endpoint(url: str, seconds: float = 5) -> Endpoint:
    return Endpoint(url, SECRET, Http(Guard(True), total_seconds=seconds))


def test_a_brief_says_all_that_an_improver_needs(work: Work, run: Any) -> None:
    group = work.client.post("/v1/corrector-groups", {"name": "g", "weight": 2.5, "scope": {"kind": "tenant"}}).json
    first, second = work.wait(2, answer="wrong", shouldSay="Tuesday", correctorGroupId=group["id"])
    (other,) = work.wait(1, subject="other")
    collector = Collector({"improveRunId": "imp-7"})
    shown = [work.correction(each) for each in (first, second)]
    run(Function(collector), first)
    (brief,) = collector.briefs
    assert (brief["projectId"], brief["subject"]) == ("p", {"kind": "agent", "id": "support"})
    assert [entry["correction"] for entry in brief["corrections"]] == shown
    entry = brief["corrections"][0]
    assert (entry["attempt"], entry["weight"]) == (1, 2.5)
    assert entry["expected"]["answer"] == {
        "verdict": "wrong", "weightRight": 0, "weightWrong": 2.5, "shouldSay": ["Tuesday"]
    }  # fmt: skip
    assert [row["kind"] for row in entry["earlierAttempts"]] == ["sorted"]
    for correction in (first, second):
        after = work.correction(correction)
        assert (after["status"], after["link"]) == ("being-fixed", {"kind": "improve-run", "id": "imp-7"})
    assert work.correction(other)["status"] == "open"
    history = work.client.get(f"/v1/corrections/{first}/history").json["data"]
    assert history[-1]["by"] == {"kind": "fix-job"}


def test_expected_behaviour_is_everybodys_word(work: Work, client_of: Any, engine: Engine, run: Any) -> None:
    (mine,) = work.wait()
    body = {"runId": work.correction(mine)["runId"], "answer": "right"}
    assert client_of(role="admin", user="bea").post("/v1/corrections", body).status_code == 201
    collector = Collector()
    run(Function(collector), mine)
    assert collector.briefs[0]["corrections"][0]["expected"]["answer"]["verdict"] == "disputed"


def test_an_endpoint_gets_it_signed_and_may_say_nothing(work: Work, run: Any) -> None:
    (correction,) = work.wait()
    with receiving(202) as receiver:
        run(endpoint(receiver.url), correction)
    (received,) = receiver.received
    assert signed_by(SECRET, received)
    message = json.loads(received.body)
    assert (message["type"], received.headers["webhook-id"]) == ("improve.brief", message["data"]["id"])
    assert work.correction(correction)["link"] == {"kind": "improve-run", "id": message["data"]["id"]}


@pytest.mark.parametrize("answer", [500, 302, 410, HANG])
def test_what_isnt_taken_comes_again_later_and_later(work: Work, run: Any, engine: Engine, answer: Any) -> None:
    (correction,) = work.wait()
    delays = []
    with receiving(answer) as receiver:
        for _ in range(3):
            run(endpoint(receiver.url, 0.3), correction)
            run(endpoint(receiver.url, 0.3), correction)  # too early: nothing to claim
            with reading(engine) as db:
                delays.append(
                    db.value(
                        "SELECT round(extract(epoch FROM available_at - ready_since)) FROM work_items"
                        " WHERE tenant_id = %s AND state = 'ready'",
                        (work.tenant,),
                    )
                )
            work.delays_pass()
    assert delays == [60, 480, 3840]
    assert len({received.headers["webhook-id"] for received in receiver.received}) == 1
    assert len(receiver.received) == 3
    collector = Collector()
    run(Function(collector), correction)
    kinds = [row["kind"] for row in collector.briefs[0]["corrections"][0]["earlierAttempts"]]
    assert kinds == ["sorted", "lease-expired", "lease-expired", "lease-expired"]
    assert collector.briefs[0]["corrections"][0]["attempt"] == 4


def test_what_is_never_taken_is_parked(work: Work, run: Any, engine: Engine) -> None:
    """Like any other work after its last attempt: listed, told of once, and put back by hand."""
    (correction,) = work.wait()
    with receiving(500) as receiver:
        for _ in range(7):
            run(endpoint(receiver.url), correction)
            work.delays_pass()
    assert len(receiver.received) == 5
    (row,) = work.rows("&state=parked")
    assert (row["correctionId"], row["attempt"]) == (correction, 5)
    assert work.claim() == []
    told = [json.loads(job) for job in work.jobs(NOTIFY)]
    assert [(job["correctionId"], job["attempt"]) for job in told if job["event"] == "work.parked"] == [(correction, 5)]
    announced = work.jobs(IMPROVE)
    assert work.client.post(f"/v1/work/{row['workItemId']}/requeue").json["attempt"] == 0
    assert [json.loads(job)["correctionIds"] for job in work.jobs(IMPROVE)[len(announced) :]] == [[correction]]
    run(Function(Collector()), correction)
    assert work.correction(correction)["status"] == "being-fixed"


def test_one_that_breaks_the_improver_takes_no_others_along(work: Work, run: Any) -> None:
    first, bad, last = work.wait(3)

    def break_on_bad(brief: dict[str, Any]) -> None:
        if bad in [entry["correction"]["id"] for entry in brief["corrections"]]:
            raise ZeroDivisionError

    collector = Collector(does=break_on_bad)
    for _ in range(7):
        run(Function(collector), first, bad, last)
        work.delays_pass()
    assert [len(brief["corrections"]) for brief in collector.briefs] == [3, 3, 3, 3, 1, 1, 1]
    assert [work.correction(each)["status"] for each in (first, bad, last)] == ["being-fixed", "open", "being-fixed"]
    assert [row["correctionId"] for row in work.rows("&state=parked")] == [bad]
    assert json.loads(work.jobs(IMPROVE)[-1])["correctionIds"] == [last], "its turn came without waiting for a sweep"


def test_an_improver_that_fails_gives_up(work: Work, run: Any) -> None:
    (correction,) = work.wait()

    def fail(_: dict[str, Any]) -> None:
        raise ZeroDivisionError

    run(Function(Collector(does=fail)), correction)
    assert [(row["state"], row["attempt"]) for row in work.rows()] == [("ready", 1)]
    assert work.correction(correction)["status"] == "open"


def test_what_was_superseded_meanwhile_is_left_alone(work: Work, run: Any) -> None:
    gone, there = work.wait(2)

    def supersede(_: dict[str, Any]) -> None:
        body = {"runId": work.correction(gone)["runId"], "answer": "right"}
        assert work.client.post("/v1/corrections", body).status_code == 201

    run(Function(Collector(does=supersede)), gone)
    assert (work.correction(gone)["status"], "link" in work.correction(gone)) == ("open", False)
    assert work.correction(there)["status"] == "being-fixed"


def test_many_workers_and_messages_hand_over_once(work: Work, run: Any) -> None:
    ids = work.wait(25)
    collector = Collector()
    threads = [threading.Thread(target=run, args=(Function(collector), *ids)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    handed = [entry["correction"]["id"] for brief in collector.briefs for entry in brief["corrections"]]
    assert sorted(handed) == sorted(ids)
    assert {work.correction(each)["status"] for each in ids} == {"being-fixed"}


def test_what_a_killed_worker_had_comes_again_as_the_same_brief(work: Work, run: Any, engine: Engine) -> None:
    ids = work.wait(2)
    with transaction(engine) as tx:
        lost = improve.take(tx, work.tenant, ("p", Subject("agent", "support")), 5)
    assert lost is not None
    work.expire()
    collector = Collector()
    run(Function(collector), *ids)
    (brief,) = collector.briefs
    assert brief["id"] == lost.id
    assert [entry["attempt"] for entry in brief["corrections"]] == [2, 2]


def test_a_full_brief_announces_the_rest(work: Work, run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(improve, "MOST", 10)
    ids = work.wait(12)
    announced = len(work.jobs(IMPROVE))
    collector = Collector()
    run(Function(collector), ids[0])
    assert len(collector.briefs[0]["corrections"]) == 10
    (more,) = [json.loads(row) for row in work.jobs(IMPROVE)[announced:]]
    run(Function(collector), *more["correctionIds"])
    assert [entry["correction"]["id"] for entry in collector.briefs[1]["corrections"]] == ids[10:]


def test_what_was_overlooked_is_announced_again(work: Work, engine: Engine) -> None:
    old, young = work.wait(1, subject="old"), work.wait(1, subject="young")
    with transaction(engine) as tx:
        tx.run(
            "UPDATE work_items SET ready_since = now() - interval '2 minutes'"
            " WHERE tenant_id = %s AND subject_id = 'old'",
            (work.tenant,),
        )
    before = len(work.jobs(IMPROVE))
    with transaction(engine) as tx:
        improve.announce_overlooked(tx)
    assert [json.loads(row)["correctionIds"] for row in work.jobs(IMPROVE)[before:]] == [old]
    assert young


def test_every_digit_arrives(work: Work, run: Any, engine: Engine) -> None:
    body = {"runId": a_run(engine, work.tenant, input='{"n":1.10,"id":107505301260286111}')} | WRONG_ANSWER
    correction = work.client.post("/v1/corrections", body).json["id"]
    work.route(correction)
    with receiving(200) as receiver:
        run(endpoint(receiver.url), correction)
    assert b'{"n":1.10,"id":107505301260286111}' in receiver.received[0].body


@pytest.fixture
def improver_at(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """The example, running: its address and the folder of its pages."""
    with server(0, SECRET, tmp_path) as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield f"http://127.0.0.1:{running.server_port}/", tmp_path
        running.shutdown()
        thread.join()


def test_the_example_writes_a_page_by_tool(work: Work, run: Any, improver_at: tuple[str, Path]) -> None:
    url, pages = improver_at
    ids = work.wait(2)
    calls = WRONG_DECISIONS | {"shouldCall": [{"tool": "look_up", "args": {"order": 1}}], "why": "too\nearly"}
    (owned,) = work.wait(**calls)
    work.client.patch(f"/v1/corrections/{owned}", {"sortedTo": "improve"})
    work.route(owned)
    run(endpoint(url), *ids)
    (page,) = pages.iterdir()
    text = page.read_text("utf-8")
    assert text.startswith("# agent support in p: 3 corrections\n")
    assert text.index("## The answer (2)") < text.index("## Tool `refund` (1)")
    assert '- Should be called with `{"order": 1}`. Run' in text
    assert "Why: too early" in text
    assert work.correction(owned)["link"] == {"kind": "improve-run", "id": f"markdown-{page.stem}"}


def test_the_example_refuses_a_stranger(work: Work, run: Any, improver_at: tuple[str, Path]) -> None:
    url, pages = improver_at
    (correction,) = work.wait()
    stranger = Endpoint(url, "whsec_" + "b3RoZXI=" * 4, Http(Guard(True)))
    run(stranger, correction)
    assert list(pages.iterdir()) == []
    assert work.correction(correction)["status"] == "open"


def install(folder: Path, *names: str) -> None:
    """Install a package with improvers of those names into ``folder``."""
    info = folder / "improvers-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: improvers\nVersion: 1\n")
    lines = "\n".join(f"{name} = examples.improver.improver:improve" for name in names)
    (info / "entry_points.txt").write_text(f"[corrigenda.improvers]\n{lines}\n")


def test_who_takes_briefs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_improver(Settings()) is None
    assert isinstance(find_improver(Settings(improve_url="http://a/", improve_secret=SECRET)), Endpoint)
    with pytest.raises(Failure, match="CORRIGENDA_IMPROVE_SECRET"):
        find_improver(Settings(improve_url="http://a/"))
    with pytest.raises(Failure, match="none is"):
        find_improver(Settings(improver="mine"))
    monkeypatch.syspath_prepend(tmp_path)
    install(tmp_path, "one")
    assert isinstance(find_improver(Settings()), Function)
    (tmp_path / "improvers-1.dist-info/entry_points.txt").unlink()
    (tmp_path / "improvers-1.dist-info/METADATA").unlink()
    (tmp_path / "improvers-1.dist-info").rmdir()
    install(tmp_path, "one", "two")
    with pytest.raises(Failure, match="one, two"):
        find_improver(Settings())
    assert isinstance(find_improver(Settings(improver="two")), Function)


def test_an_improver_that_cannot_be_loaded_is_said_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    install(tmp_path, "broken")
    (tmp_path / "improvers-1.dist-info/entry_points.txt").write_text(
        "[corrigenda.improvers]\nbroken = nowhere:improve\n"
    )
    with pytest.raises(Failure) as failure:
        find_improver(Settings())
    why = "ModuleNotFoundError: No module named 'nowhere'"
    assert str(failure.value) == f"The improver broken (nowhere:improve) can't be loaded: {why}"

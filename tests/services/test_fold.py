"""The end state follows from the order in which events were accepted, whatever the workers go through."""

from __future__ import annotations

import random
import threading
import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import Engine

from app.domain import times
from app.domain.errors import DatabaseBusy
from app.domain.model import Subject
from app.services import apply
from app.store.engine import reading
from app.transaction import transaction
from tests.client import Client
from tests.conftest import ClientOf
from tests.lifecycle import RIGHT, WRONG_ANSWER, WRONG_DECISIONS, Project
from tests.services.model import ORDER, Correction, World

PULL = {"kind": "pull-request", "url": "https://example.com/pull/7"}
SAID = {"owner": WRONG_DECISIONS, "improve": WRONG_ANSWER, "right": RIGHT, "user": {**RIGHT, "participantId": "x"}}
NAMES = st.sets(st.sampled_from(list(SAID)))
VERSIONS = st.sampled_from(ORDER)
EARLIER = st.sampled_from([0, 0, 0, 1, 2])
"""Hours before now as of which a deploy or test run counts."""

BY_HAND = st.sampled_from(["open", "being-fixed", "with-owner", "wont-fix"])

EVENTS = st.one_of(
    st.tuples(st.just("deploy"), VERSIONS, EARLIER, NAMES),
    st.tuples(st.just("pin"), VERSIONS, NAMES),
    st.tuples(st.just("unpin")),
    st.tuples(
        st.just("test"),
        VERSIONS,
        EARLIER,
        st.dictionaries(st.sampled_from(list(SAID)), st.sampled_from(["right", "wrong"]), min_size=1),
    ),
    st.tuples(
        st.just("status"),
        st.sampled_from(list(SAID)),
        st.sampled_from(["open", "being-fixed", "with-owner", "wont-fix"]),
    ),
    st.tuples(st.just("sort"), st.sampled_from(list(SAID)), st.sampled_from(["improve", "developer", "owner"])),
    st.tuples(st.just("work")),
)

Workers = Callable[[Engine, str], None]


def one_worker(engine: Engine, tenant: str) -> None:
    while try_step(engine, tenant, random.Random(0), mishaps=0):
        pass


def four_workers(engine: Engine, tenant: str) -> None:
    """Four at once, each of whose steps is now and then undone as by a kill, and who come again when they are done."""

    def work(seed: int) -> None:
        chance = random.Random(seed)
        for _ in range(3):
            while try_step(engine, tenant, chance, mishaps=0.3):
                pass

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    one_worker(engine, tenant)


class Killed(Exception):
    pass


def try_step(engine: Engine, tenant: str, chance: random.Random, mishaps: float) -> bool:
    try:
        with transaction(engine) as tx:
            more = apply.step(tx, tenant, "p", Subject("agent", "support"))
            if chance.random() < mishaps:
                raise Killed
            return more
    except (Killed, DatabaseBusy):
        return True


class Story:
    """A sequence of events, sent through the API and told to the model."""

    def __init__(self, client: Client, engine: Engine, workers: Workers) -> None:
        self.p = Project(client, engine)
        self.by = {"kind": "user", "id": "admin"}
        self.engine, self.workers, self.arrivals = engine, workers, 0
        self.ids = {name: self.p.correct(said) for name, said in SAID.items()}
        self.world = World({name: self._known(name) for name in SAID})

    def _known(self, name: str) -> Correction:
        self.p.change(self.ids[name], link=PULL | {"url": f"https://example.com/{name}"})
        return Correction("1.0.0", name == "user", self.p.of(self.ids[name]))

    def tell(self, event: tuple[Any, ...]) -> None:
        getattr(self, f"_{event[0]}")(*event[1:])

    def _deploy(self, version: str, hours: int, resolves: set[str]) -> None:
        sent = {"at": before(hours)} if hours else {}
        made = self.p.deploy(version, resolves=self._resolves(resolves), **sent)
        with reading(self.engine) as db:
            as_of, at = db.row("SELECT at, accepted_at FROM deploys WHERE id = %s", (made["id"],)) or ()
        self.world.deploy(version, times.wire(as_of), times.wire(at), resolves)

    def _pin(self, version: str, resolves: set[str]) -> None:
        made = self.p.pin(version, resolves=self._resolves(resolves))
        self.world.pin(version, self.by, made["changed"][0]["at"], resolves)

    def _unpin(self) -> None:
        if self.world.pinned:
            self.world.unpin(self.by, self.p.unpin()["changed"][0]["at"])

    def _test(self, version: str, hours: int, verdicts: dict[str, str]) -> None:
        sent = {"at": before(hours)} if hours else {}
        made = self.p.test(version, {self.ids[name]: verdict for name, verdict in verdicts.items()}, **sent)
        with reading(self.engine) as db:
            as_of, at = db.row("SELECT at, accepted_at FROM test_runs WHERE id = %s", (made,)) or ()
        self.arrivals += 1
        self.world.test(version, verdicts, times.wire(as_of), times.wire(at), self.arrivals)

    def _status(self, name: str, status: str) -> None:
        """Set by hand, with the sorting that it can hold with; answered with all that was accepted before."""
        sorted_to = {"open": "improve", "with-owner": "owner"}.get(status)
        shown = self.p.change(self.ids[name], status=status, **({"sortedTo": sorted_to} if sorted_to else {}))
        self.world.set_status(name, status)
        if sorted_to:
            self.world.corrections[name].shown |= {"sortedTo": sorted_to, "sorted": shown["sorted"]}
        assert self.p.of(self.ids[name]) == self.world.corrections[name].shown

    def _sort(self, name: str, queue: str) -> None:
        shown = self.p.change(self.ids[name], sortedTo=queue)
        self.world.sort(name, queue, shown["sorted"])
        assert self.p.of(self.ids[name]) == self.world.corrections[name].shown

    def _work(self) -> None:
        self.workers(self.engine, self.p.client.caller.tenant_id)

    def _resolves(self, names: set[str]) -> dict[str, Any]:
        """Half of them by id, half by link."""
        return {
            "correctionIds": [self.ids[name] for name in sorted(names) if name in ("owner", "right")],
            "links": [PULL | {"url": f"https://example.com/{n}"} for n in sorted(names) if n in ("improve", "user")],
        }

    def check(self) -> None:
        self._work()
        shown = {name: self.p.of(correction) for name, correction in self.ids.items()}
        assert shown == {name: known.shown for name, known in self.world.corrections.items()}
        self._check_that_nothing_is_left()
        for name, correction in self.ids.items():
            moves = [row for row in self.p.history(correction) if row["kind"] in ("fixed", "reopened", "status")]
            chain = [(row.get("from"), row.get("to")) for row in moves if "to" in row]
            assert all(one[1] == other[0] for one, other in pairwise(chain)), (name, chain)
            assert not chain or chain[-1][1] == shown[name]["status"]

    def _check_that_nothing_is_left(self) -> None:
        tenant = self.p.client.caller.tenant_id
        with reading(self.engine) as db:
            assert db.value("SELECT count(*) FROM passes WHERE tenant_id = %s", (tenant,)) == 0
            assert db.row("SELECT accepted_seq, applied_seq FROM running WHERE tenant_id = %s", (tenant,)) == db.row(
                "SELECT count(*), count(*) FROM accepted_events WHERE tenant_id = %s", (tenant,)
            )


def before(hours: int) -> str:
    return times.wire(datetime.now(UTC) - timedelta(hours=hours))


@pytest.mark.parametrize("workers", [one_worker, four_workers])
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(events=st.lists(EVENTS, min_size=1, max_size=8))
def test_the_end_state_is_a_fold_over_the_log(
    engine: Engine, client_of: ClientOf, workers: Workers, events: list[tuple[Any, ...]]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(apply, "BATCH", 1)
        patch.setattr(apply, "BATCHES_AT_ONCE", 2)
        patch.setattr(apply, "EVENTS_AT_ONCE", 2)
        story = Story(client_of("admin", user="admin", tenant_id=f"t-{uuid.uuid4()}"), engine, workers)
        for event in events:
            story.tell(event)
        story.check()

"""Everything at once: recordings, changes, events and workers beside each other lead to what the log says."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from typing import Any

from sqlalchemy import Engine

from app.domain.lifecycle import Corrected, Occasion, Running, fold
from app.domain.model import Principal, Standing
from app.store import standings
from app.store.engine import Db, reading
from tests.client import Client
from tests.conftest import ClientOf
from tests.factories import a_run
from tests.lifecycle import RIGHT, SUPPORT, WRONG_ANSWER, WRONG_DECISIONS, apply_all

SECONDS = 2.5
VERSIONS = ["1.0.0", "2.0.0", "3.0.0"]
SAID = [RIGHT, WRONG_ANSWER, WRONG_DECISIONS]


class Crowd:
    """Callers that act at random until the time is up."""

    def __init__(self, engine: Engine, client_of: ClientOf, tenant: str) -> None:
        self.engine, self.client_of, self.tenant = engine, client_of, tenant
        self.runs = [a_run(engine, tenant, subject_version=random.choice(VERSIONS)) for _ in range(15)]
        self.known: list[str] = []
        self.failures: list[Any] = []
        self.ends = time.monotonic() + SECONDS

    def run(self, *acts: Callable[[Client, random.Random], Any]) -> None:
        threads = [threading.Thread(target=self._act, args=(act, seed)) for seed, act in enumerate(acts)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _act(self, act: Callable[[Client, random.Random], Any], seed: int) -> None:
        client, chance = self.client_of("admin", user=f"user-{seed}"), random.Random(seed)
        while time.monotonic() < self.ends:
            answer = act(client, chance)
            if answer is not None and answer.status_code not in (200, 201, 202, 409):
                self.failures.append(answer.text)

    def record(self, client: Client, chance: random.Random) -> Any:
        """Of few runs, so that many supersede."""
        answer = client.post("/v1/corrections", {"runId": chance.choice(self.runs)} | chance.choice(SAID))
        if answer.status_code == 201:
            self.known.append(answer.json["id"])
        return answer

    def note(self, client: Client, chance: random.Random) -> Any:
        return client.patch(f"/v1/corrections/{chance.choice(self.known)}", {"note": "hm"}) if self.known else None

    def move(self, client: Client, chance: random.Random) -> Any:
        time.sleep(0.03)
        version = {"subject": SUPPORT, "version": chance.choice(VERSIONS)}
        what = chance.choice(["deploy", "pin", "unpin"])
        if what == "deploy":
            return client.post("/v1/deploys", version | {"resolves": {"correctionIds": self.known[-3:]}})
        return client.post(f"/v1/projects/p/{what}s", version if what == "pin" else {"subject": SUPPORT})

    def test(self, client: Client, chance: random.Random) -> Any:
        time.sleep(0.01)
        named = {chance.choice(self.known) for _ in range(5)} if self.known else set()
        results = [{"correctionId": one, "verdict": chance.choice(["right", "wrong"])} for one in sorted(named)]
        subject = SUPPORT | {"version": chance.choice(VERSIONS)}
        return (
            client.post("/v1/test-runs", {"projectId": "p", "subject": subject, "results": results}) if named else None
        )

    def work(self, client: Client, chance: random.Random) -> None:
        apply_all(self.engine, self.tenant)
        time.sleep(chance.random() / 50)


def test_all_at_once_leads_to_what_the_log_says(engine: Engine, client_of: ClientOf, tenant: str) -> None:
    crowd = Crowd(engine, client_of, tenant)
    crowd.run(crowd.record, crowd.record, crowd.note, crowd.move, crowd.test, crowd.test, crowd.work, crowd.work)
    assert crowd.failures == []
    apply_all(engine, tenant)
    with reading(engine) as db:
        assert_no_gaps(db, tenant)
        rows = db.dicts("SELECT * FROM corrections WHERE tenant_id = %s AND unregistered_at IS NULL", (tenant,))
        checked = [row["id"] for row in rows if placed(db, row)]
        for row in rows:
            if row["id"] in checked:
                assert standings.standing_of(row) == expected(db, row), row["id"]
    assert len(checked) > 5


def assert_no_gaps(db: Db, tenant: str) -> None:
    seqs = [row[0] for row in db.rows("SELECT seq FROM accepted_events WHERE tenant_id = %s ORDER BY seq", (tenant,))]
    assert seqs == list(range(1, len(seqs) + 1))
    assert len(seqs) > 20
    assert db.row("SELECT accepted_seq, applied_seq FROM running WHERE tenant_id = %s", (tenant,)) == (len(seqs),) * 2
    times = db.rows("SELECT accepted_at FROM accepted_events WHERE tenant_id = %s ORDER BY seq", (tenant,))
    assert times == sorted(times)


def placed(db: Db, row: dict[str, Any]) -> bool:
    """Whether its moment tells it from every event; those of the same millisecond can't be told apart afterwards."""
    same = "SELECT count(*) FROM accepted_events WHERE tenant_id = %s AND accepted_at = %s"
    return db.value(same, (row["tenant_id"], row["created_at"])) == 0


_CONCERNING = """
SELECT e.accepted_at, e.version, e.how, e.by_kind, e.by_id,
       (SELECT r.verdict FROM test_results r
         WHERE r.tenant_id = e.tenant_id AND r.correction_id = %(id)s AND r.version = e.version AND r.seq <= e.seq
         ORDER BY r.at DESC, r.seq DESC LIMIT 1),
       EXISTS (SELECT FROM resolved_corrections x WHERE x.source_id = e.resolves_id AND x.correction_id = %(id)s)
  FROM accepted_events e
 WHERE e.tenant_id = %(tenant_id)s AND e.accepted_at > %(created_at)s AND e.version IS NOT NULL
   AND (e.version IS DISTINCT FROM (SELECT b.version FROM accepted_events b
                                     WHERE b.tenant_id = e.tenant_id AND b.seq = e.seq - 1)
        OR EXISTS (SELECT FROM test_results r JOIN test_runs t ON t.id = r.test_run_id
                    WHERE r.correction_id = %(id)s AND t.seq = e.seq AND r.version = e.version)
        OR EXISTS (SELECT FROM resolved_corrections x WHERE x.source_id = e.source_id AND x.correction_id = %(id)s))
 ORDER BY e.seq
"""


def expected(db: Db, row: dict[str, Any]) -> Standing:
    """Where it was at its recording, and what all later events make of that."""
    (recorded,) = db.dicts(
        "SELECT to_value AS status FROM correction_history WHERE tenant_id = %s AND correction_id = %s"
        " AND kind = 'recorded'",
        (row["tenant_id"], row["id"]),
    )
    nothing = dict.fromkeys((name for name in row if name.startswith(("sorted", "fixed", "reopened"))), None)
    queue = {"with-owner": "owner", "open": "improve", "fixed": None}[recorded["status"]]
    at = row["created_at"]
    start = row | nothing | recorded | {"sorted_to": queue}
    start |= {"sorted_by_kind": "rule", "sorted_at": at} if queue else {"fixed_how": "recorded-right", "fixed_at": at}
    before = standings.standing_of(start)
    occasions = [
        Occasion(at, Running(version, how, Principal(kind, by) if kind else None), verdict, named)
        for at, version, how, kind, by, verdict, named in db.rows(_CONCERNING, row)
    ]
    made = fold(Corrected(row["subject_version"], row["end_user"]), before, occasions)
    return made[-1][1] if made else before

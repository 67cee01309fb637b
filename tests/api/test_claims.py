"""Claims: who gets what in which order, what a holder may do, and what it is told when it no longer holds."""

from __future__ import annotations

import json
import random
import re
from typing import Any

import pytest
from sqlalchemy import Engine

from app.domain.jobs import NOTIFY
from app.domain.model import Grant
from app.store.engine import reading
from tests.client import Client
from tests.conftest import ClientOf
from tests.factories import a_run
from tests.lifecycle import WRONG_ANSWER, WRONG_DECISIONS, Project, apply_all
from tests.work import BEING_FIXED, Work


@pytest.fixture
def work(admin: Client, engine: Engine) -> Work:
    return Work(admin, engine)


def corrected(items: list[dict[str, Any]]) -> list[str]:
    return [item["correction"]["id"] for item in items]


def test_a_claim_shows_the_item_with_its_correction_and_copy(work: Work) -> None:
    (correction,) = work.wait()
    (item,) = work.claim(leaseSeconds=60)
    assert set(item) == {"workItemId", "queue", "leaseToken", "leaseExpiresAt", "attempt", "correction"}
    assert (item["queue"], item["attempt"]) == ("improve", 1)
    assert item["correction"] == work.correction(correction)
    assert item["correction"]["run"]["input"] == {"message": "hello"}
    (row,) = work.rows()
    assert (row["state"], row["attempt"], row["leaseExpiresAt"]) == ("leased", 1, item["leaseExpiresAt"])
    assert work.claim() == []


def test_only_the_hash_of_a_token_is_stored(work: Work, engine: Engine) -> None:
    work.wait()
    (item,) = work.claim()
    with reading(engine) as db:
        row = db.value("SELECT w::text FROM work_items w WHERE tenant_id = %s", (work.tenant,))
    assert item["leaseToken"] not in row


def test_oldest_first_whenever_it_was_routed(work: Work) -> None:
    old, new = work.wait(2)
    work.client.patch(f"/v1/corrections/{old}", {"sortedTo": "developer"})
    work.route(old)
    work.client.patch(f"/v1/corrections/{old}", {"sortedTo": "improve"})
    work.route(old)
    assert corrected(work.claim(2)) == [old, new]


def test_subjects_take_turns_within_a_claim(work: Work) -> None:
    many = work.wait(6, subject="busy")
    few = work.wait(2, subject="quiet")
    elsewhere = work.wait(1, subject="busy", project="q")
    found = corrected(work.claim(8))
    assert found == [many[0], few[0], elsewhere[0], many[1], few[1], *many[2:5]]


def test_subjects_take_turns_from_claim_to_claim(work: Work) -> None:
    many = work.wait(5, subject="busy")
    few = work.wait(2, subject="quiet")
    found = [corrected(work.claim())[0] for _ in range(5)]
    assert found == [many[0], few[0], many[1], few[1], many[2]]
    late = work.wait(2, subject="late")
    more = work.wait(1, subject="quiet")
    assert [corrected(work.claim())[0] for _ in range(4)] == [late[0], more[0], many[3], late[1]]


@pytest.mark.parametrize("seed", range(4))
def test_turns_are_the_same_however_much_is_claimed_at_once(work: Work, seed: int) -> None:
    """As if one were claimed after the other, each from the next subject that has something."""
    dice = random.Random(seed)
    lanes = [(project, subject) for project in ("p", "q") for subject in ("a", "b", "c")]
    waiting = {lane: work.wait(dice.randrange(7), project=lane[0], subject=lane[1]) for lane in lanes}
    claimed, expected, last = [], [], ("", "")
    while any(waiting.values()):
        some = corrected(work.claim(dice.choice([1, 2, 5, 9])))
        claimed += some
        for _ in some:
            last = next(lane for lane in [x for x in lanes if x > last] + lanes if waiting[lane])
            expected.append(waiting[last].pop(0))
    assert claimed == expected
    assert work.claim(100) == []


def test_what_a_claim_asks_for(work: Work) -> None:
    (here,) = work.wait()
    (there,) = work.wait(project="q")
    (other,) = work.wait(subject="other")
    (owner,) = work.wait(**WRONG_DECISIONS)
    assert work.claim(100, "developer") == []
    assert corrected(work.claim(100, "owner")) == [owner]
    assert corrected(work.claim(100, projectId="q")) == [there]
    assert work.claim(100, projectId="none") == []
    assert work.claim(100, subject={"kind": "flow", "id": "other"}) == []
    assert corrected(work.claim(100, subject={"kind": "agent", "id": "other"})) == [other]
    assert corrected(work.claim(100)) == [here]


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({}, "/queue"),
        ({"queue": "none"}, "/queue"),
        ({"queue": "improve", "limit": 0}, "/limit"),
        ({"queue": "improve", "limit": 101}, "/limit"),
        ({"queue": "improve", "leaseSeconds": 29}, "/leaseSeconds"),
        ({"queue": "improve", "leaseSeconds": 3601}, "/leaseSeconds"),
        ({"queue": "improve", "leaseSeconds": None}, "/leaseSeconds"),
        ({"queue": "improve", "subject": {"kind": "agent"}}, "/subject/id"),
        ({"queue": "improve", "subject": {"kind": "agent", "id": "a", "version": "1"}}, "/subject/version"),
    ],
)
def test_bad_claims(work: Work, body: Any, path: str) -> None:
    answer = work.client.post("/v1/work/claims", body)
    assert answer.status_code == 400
    assert answer.json["error"]["details"]["issues"][0]["path"] == path


@pytest.mark.parametrize(
    ("verb", "body", "path"),
    [
        ("renew", {"leaseSeconds": 60}, "/leaseToken"),
        ("renew", {"leaseToken": "x", "leaseSeconds": 10}, "/leaseSeconds"),
        ("release", {"leaseToken": "x", "delaySeconds": -1}, "/delaySeconds"),
        ("release", {"leaseToken": "x", "reason": "r" * 4001}, "/reason"),
        ("release", {"leaseToken": "x", "reason": None}, "/reason"),
        ("complete", {"leaseToken": "x"}, "/outcome"),
        ("complete", {"leaseToken": "x", "outcome": {"kind": "fixed"}}, "/outcome/kind"),
        ("complete", {"leaseToken": "x", "outcome": {"kind": "being-fixed"}}, "/outcome/link"),
        ("complete", {"leaseToken": "x", "outcome": {"kind": "re-sort"}}, "/outcome/sortedTo"),
        ("complete", {"leaseToken": "x", "outcome": {"kind": "wont-fix", "reason": "r"}}, "/outcome/reason"),
        ("complete", {"leaseToken": "x", "outcome": {"kind": "re-sort", "sortedTo": "owner", "note": "n"}},
         "/outcome/note"),
        ("requeue", {"leaseToken": "x"}, "/leaseToken"),
    ],
)  # fmt: skip
def test_bad_bodies(work: Work, verb: str, body: Any, path: str) -> None:
    work.wait()
    (item,) = work.claim()
    answer = work.client.post(f"/v1/work/{item['workItemId']}/{verb}", body)
    assert answer.status_code == 400
    assert answer.json["error"]["details"]["issues"][0]["path"] == path


@pytest.mark.parametrize("seconds", [b"60", b"60.0", b"6e1"])
def test_a_whole_number_however_it_is_spelled(admin: Client, seconds: bytes) -> None:
    assert admin.post("/v1/work/claims", data=b'{"queue":"improve","leaseSeconds":%b}' % seconds).status_code == 200


@pytest.mark.parametrize("seconds", [b"60.5", b"29.0", b"1e400", b"true", b"1e-400"])
def test_what_is_no_whole_number_in_its_bounds(admin: Client, seconds: bytes) -> None:
    answer = admin.post("/v1/work/claims", data=b'{"queue":"improve","leaseSeconds":%b}' % seconds)
    assert answer.status_code == 400
    assert answer.json["error"]["details"]["issues"][0]["path"] == "/leaseSeconds"


def test_only_what_the_caller_may_write(work: Work, client_of: ClientOf, engine: Engine) -> None:
    (here,) = work.wait(project="p")
    work.wait(project="q")
    assert Work(client_of(grants=[Grant("tenant", "read")]), engine).claim(100) == []
    assert Work(client_of(), engine).claim(100) == []
    writer = Work(client_of(grants=[Grant("project", "write", "p"), Grant("project", "read", "q")]), engine)
    assert writer.claim(100, projectId="q") == []
    assert corrected(writer.claim(100)) == [here]


def test_a_renewed_lease_lasts_from_now(work: Work) -> None:
    work.wait()
    (item,) = work.claim(leaseSeconds=30)
    row = work.client.post(
        f"/v1/work/{item['workItemId']}/renew", {"leaseToken": item["leaseToken"], "leaseSeconds": 3600}
    ).json
    assert row["leaseExpiresAt"] > item["leaseExpiresAt"]
    assert row == work.rows()[0]
    assert work.ask("renew", item | {"leaseToken": "another"}) == "lost: unknown"


def test_a_released_lease_is_no_attempt(work: Work) -> None:
    work.wait()
    for _ in range(7):
        (item,) = work.claim()
        assert item["attempt"] == 1
        assert work.ask("release", item) == "ready"
    assert work.rows()[0]["attempt"] == 0
    for verb in ("renew", "release", "complete"):
        assert work.ask(verb, item) == "lost: released"


def test_a_delayed_item_waits(work: Work) -> None:
    first, second = work.wait(2)
    (item,) = work.claim()
    assert work.ask("release", item, delaySeconds=60, reason="the build is broken") == "ready"
    assert corrected(work.claim(2)) == [second]
    work.delays_pass()
    (again,) = work.claim(2)
    assert (again["correction"]["id"], again["attempt"]) == (first, 1)


def test_an_expired_lease_is_lost_and_counts(work: Work) -> None:
    work.wait()
    (late,) = work.claim()
    work.expire()
    (row,) = work.rows()
    assert (row["state"], row["attempt"]) == ("ready", 1)
    assert work.ask("renew", late) == "lost: expired"
    (item,) = work.claim()
    assert item["attempt"] == 2
    for verb in ("renew", "release", "complete"):
        assert work.ask(verb, late) == "lost: expired"
    assert work.ask("complete", item) == "done"
    assert work.ask("complete", late) == "lost: expired"
    assert work.ask("complete", item) == "lost: completed"


def test_after_five_attempts_it_is_parked_and_told_until_it_is_requeued(work: Work) -> None:
    (correction,) = work.wait()
    for attempt in range(1, 6):
        (item,) = work.claim()
        assert item["attempt"] == attempt
        work.expire()
    (row,) = work.rows("&state=parked")
    assert (row["attempt"], work.rows("&state=ready")) == (5, [])
    assert work.client.get("/v1/work/stats").json["queues"]["improve"]["parked"] == 1
    assert work.claim() == []
    (told,) = [json.loads(ids) for ids in work.jobs(NOTIFY)]
    assert told.items() >= {"event": "work.parked", "correctionId": correction, "attempt": 5}.items()
    assert told["at"] == row["readySince"], "when its last lease was over"
    assert work.ask("renew", item) == "lost: expired"
    assert work.rows("&state=parked") == [row]
    assert work.ask("requeue", item) == "ready"
    (item,) = work.claim()
    assert item["attempt"] == 1


def test_requeue_leaves_leased_and_ended_items_alone(work: Work) -> None:
    work.wait()
    (item,) = work.claim()
    assert work.ask("requeue", item) == "leased"
    assert work.ask("renew", item) == "leased"
    assert work.ask("complete", item) == "done"
    assert work.ask("requeue", item) == "done"
    (delayed,) = work.wait()
    (item,) = work.claim()
    work.ask("release", item, delaySeconds=600)
    assert work.ask("requeue", item) == "ready"
    assert corrected(work.claim()) == [delayed]


def test_completing_for_improve_is_the_fix_jobs_doing(work: Work) -> None:
    (correction,) = work.wait()
    (item,) = work.claim()
    assert work.ask("complete", item) == "done"
    shown = work.correction(correction)
    assert (shown["status"], shown["link"], shown["sortedTo"]) == ("being-fixed", BEING_FIXED["link"], "improve")
    work.route(correction)
    assert [row["state"] for row in work.rows()] == ["done"]
    history = work.client.get(f"/v1/corrections/{correction}/history").json["data"]
    assert [(row["kind"], row["by"]) for row in history[-2:]] == [
        ("status", {"kind": "fix-job"}), ("linked", {"kind": "fix-job"})
    ]  # fmt: skip


@pytest.mark.parametrize(
    "link", [{"kind": "suggested-change", "id": "s"}, {"kind": "pull-request", "url": "https://git.example/1"}]
)
def test_links_of_all_kinds(work: Work, link: dict[str, str]) -> None:
    (correction,) = work.wait()
    work.ask("complete", work.claim()[0], outcome={"kind": "being-fixed", "link": link})
    assert work.correction(correction)["link"] == link


def test_a_re_sort_says_who_and_why_and_makes_a_new_item(work: Work) -> None:
    (correction,) = work.wait()
    outcome = {"kind": "re-sort", "sortedTo": "owner", "reason": "not for a prompt"}
    assert work.ask("complete", work.claim()[0], outcome=outcome) == "done"
    shown = work.correction(correction)
    assert (shown["status"], shown["sortedTo"]) == ("with-owner", "owner")
    assert shown["sorted"]["by"] == {"kind": "fix-job"}
    assert shown["sorted"]["reason"] == "not for a prompt"
    work.route(correction)
    assert [(row["queue"], row["state"]) for row in work.rows()] == [("owner", "ready"), ("improve", "done")]
    outcome = {"kind": "re-sort", "sortedTo": "developer"}
    assert work.ask("complete", work.claim(1, "owner")[0], outcome=outcome) == "done"
    assert work.correction(correction)["sorted"]["by"] == {"kind": "user", "id": "admin"}


def test_wont_fix_with_a_note(work: Work) -> None:
    (correction,) = work.wait(**WRONG_DECISIONS)
    assert work.ask("complete", work.claim(1, "owner")[0], outcome={"kind": "wont-fix", "note": "by design"}) == "done"
    shown = work.correction(correction)
    assert (shown["status"], shown["statusNote"]["text"]) == ("wont-fix", "by design")
    assert shown["statusNote"]["by"] == {"kind": "user", "id": "admin"}


def supersede(work: Work, correction: str) -> None:
    run = work.correction(correction)["runId"]
    assert work.client.post("/v1/corrections", {"runId": run, "answer": "right"}).status_code == 201


def remove(work: Work, correction: str) -> None:
    assert work.client.post(f"/v1/corrections/{correction}/remove").status_code == 200


def patched(**body: Any) -> Any:
    def patch(work: Work, correction: str) -> None:
        assert work.client.patch(f"/v1/corrections/{correction}", body).status_code == 200

    return patch


ENDINGS = {
    "superseded": supersede,
    "removed": remove,
    "re-sorted": patched(sortedTo="developer"),
    "wont-fix": patched(status="wont-fix"),
    "being-fixed": patched(status="being-fixed"),
}


@pytest.mark.parametrize("routed", [False, True])
@pytest.mark.parametrize("reason", ENDINGS)
def test_a_holder_is_told_what_became_of_the_correction(work: Work, reason: str, routed: bool) -> None:
    (correction,) = work.wait()
    (item,) = work.claim()
    ENDINGS[reason](work, correction)
    if routed:
        work.route(correction)
    before = work.correction(correction)
    for verb in ("renew", "release", "complete"):
        assert work.ask(verb, item) == f"lost: {reason}"
    assert work.correction(correction) == before
    assert work.claim(100) == []
    work.route(correction)
    assert [row["state"] for row in work.rows("&queue=improve")] == ["withdrawn"]


@pytest.mark.parametrize("applied", [False, True])
def test_a_fixed_correction_never_comes_back_but_a_reopened_one_gets_a_new_item(
    work: Work, engine: Engine, applied: bool
) -> None:
    (correction,) = work.wait()
    (item,) = work.claim()
    project = Project(work.client, engine)
    project.deploy("2.0.0")
    project.test("2.0.0", {correction: "right"})
    if applied:
        apply_all(engine, work.tenant)
    assert work.ask("complete", item) == "lost: fixed"
    apply_all(engine, work.tenant)
    assert work.ask("renew", item) == "lost: fixed"
    project.test("2.0.0", {correction: "wrong"})
    apply_all(engine, work.tenant)
    assert work.ask("renew", item) == "lost: fixed"
    (again,) = work.claim(100)
    assert again["workItemId"] != item["workItemId"]
    assert (again["correction"]["id"], again["attempt"]) == (correction, 1)
    assert work.ask("complete", again) == "done"


def test_a_claim_passes_over_what_no_longer_waits(work: Work) -> None:
    gone, waiting = work.wait(2)
    remove(work, gone)
    assert corrected(work.claim(2)) == [waiting]


def test_unknown_and_unreadable_items_are_not_found(work: Work, client_of: ClientOf, engine: Engine) -> None:
    work.wait()
    (item,) = work.claim()
    stranger = Work(client_of(role="admin", tenant_id=f"{work.tenant}-2"), engine)
    for client in (stranger.client, client_of()):
        answer = client.post(f"/v1/work/{item['workItemId']}/release", {"leaseToken": item["leaseToken"]})
        assert (answer.status_code, answer.json["error"]["code"]) == (404, "work-item-not-found")
    assert work.client.post("/v1/work/none/requeue").json["error"]["code"] == "work-item-not-found"
    assert work.ask("release", item) == "ready"


def test_a_kept_answer_has_its_lease_tokens(work: Work) -> None:
    work.wait(2)
    first, again = (
        work.client.post("/v1/work/claims", {"queue": "improve"}, headers={"Idempotency-Key": "k"}) for _ in range(2)
    )
    assert first.data == again.data
    assert again.headers["X-Idempotent-Replay"] == "true"
    assert re.fullmatch(r"[\w-]{43}", again.json["items"][0]["leaseToken"])
    assert len(work.rows("&state=leased")) == 1


def test_a_recording_isnt_held_up_by_a_holder(work: Work, engine: Engine) -> None:
    (correction,) = work.wait()
    work.claim()
    run = work.correction(correction)["runId"]
    assert work.client.post("/v1/corrections", {"runId": run, **WRONG_ANSWER}).status_code == 201
    assert a_run(engine, work.tenant)

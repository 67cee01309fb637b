"""What events make of corrections once workers have applied them."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import Engine

from app.domain import times
from app.store.engine import reading
from tests.client import Client
from tests.lifecycle import RIGHT, WRONG_ANSWER, WRONG_DECISIONS, Project

ADMIN = {"kind": "user", "id": "admin"}
PULL = {"kind": "pull-request", "url": "https://example.com/pull/7"}


@pytest.fixture
def p(admin: Client, engine: Engine) -> Project:
    return Project(admin, engine)


def ago(**much: float) -> str:
    return times.wire(datetime.now(UTC) - timedelta(**much))


def test_the_whole_way(p: Project) -> None:
    one = p.correct(WRONG_DECISIONS)
    p.deploy("1.0.0")
    tested = p.test("1.1.0", {one: "right"})
    p.work()
    assert p.counts(tested) == {"status": "applied", "right": 1, "unchanged": 1}
    deployed = p.deploy("1.1.0")["changed"][0]
    p.work()
    sorted_ = p.of(one)["sorted"]
    fixed_in = {"version": "1.1.0", "how": "latest", "at": deployed["at"]}
    assert p.of(one) == {"status": "fixed", "sortedTo": "owner", "sorted": sorted_, "fixedIn": fixed_in}
    back = p.pin("1.0.0")["changed"][0]
    retested = p.test("1.0.0", {one: "wrong"})
    p.work()
    assert p.counts(retested) == {"status": "applied", "wrong": 1, "reopened": 1}
    shown = p.of(one)
    at = shown["reopenedIn"]["at"]
    assert at > back["at"]
    assert shown == {
        "status": "with-owner",
        "sortedTo": "owner",
        "sorted": sorted_,
        "fixedIn": fixed_in,
        "reopenedIn": {"version": "1.0.0", "how": "went-back", "by": ADMIN, "at": at},
    }
    freed = p.unpin()["changed"][0]
    p.work()
    assert p.of(one)["fixedIn"] == {"version": "1.1.0", "how": "latest", "by": ADMIN, "at": freed["at"]}
    assert "reopenedIn" not in p.of(one)
    assert p.history(one)[2:] == [
        {
            "kind": "fixed", "from": "with-owner", "to": "fixed", "version": "1.1.0", "how": "latest",
            "testRunId": tested,
        },
        {
            "kind": "reopened", "by": ADMIN, "from": "fixed", "to": "with-owner", "version": "1.0.0",
            "how": "went-back", "testRunId": retested,
        },
        {
            "kind": "fixed", "by": ADMIN, "from": "with-owner", "to": "fixed", "version": "1.1.0", "how": "latest",
            "testRunId": tested,
        },
    ]  # fmt: skip


@pytest.mark.parametrize("verdict_first", [True, False])
def test_a_verdict_counts_whether_it_comes_before_its_version_runs_or_after(p: Project, verdict_first: bool) -> None:
    one = p.correct()
    if verdict_first:
        p.test("2.0.0", {one: "right"})
        p.deploy("2.0.0")
    else:
        p.deploy("2.0.0")
        p.test("2.0.0", {one: "right"})
    p.work()
    assert p.status(one) == "fixed"


def test_what_was_recorded_right_is_reopened_and_sorted_so_that_somebody_works_on_it(p: Project) -> None:
    one, end_users = p.correct(RIGHT), p.correct(RIGHT, participantId="x")
    p.change(end_users, status="open")
    p.deploy("2.0.0")
    tested = p.test("2.0.0", {one: "wrong", end_users: "right"})
    p.work()
    shown = p.of(one)
    at = shown["reopenedIn"]["at"]
    assert (shown["status"], shown["sortedTo"]) == ("open", "improve")
    assert shown["sorted"] == {"by": {"kind": "rule"}, "at": at}
    assert shown["fixedIn"]["how"] == "recorded-right"
    assert [row["kind"] for row in p.history(one)] == ["recorded", "fixed", "reopened", "sorted"]
    p.test("2.0.0", {end_users: "wrong"})
    p.work()
    assert p.of(end_users)["status"] == "open"
    assert "sortedTo" not in p.of(end_users)
    assert p.counts(tested) == {"status": "applied", "right": 1, "wrong": 1, "fixed": 1, "reopened": 1}


def test_only_what_a_test_run_names_is_decided_on(p: Project) -> None:
    one, other = p.correct(), p.correct()
    p.deploy("2.0.0")
    p.test("2.0.0", {one: "right"})
    p.work()
    assert (p.status(one), p.status(other)) == ("fixed", "open")


def test_the_newest_verdict_is_by_the_test_runs_time_and_then_by_arrival(p: Project) -> None:
    one, two = p.correct(), p.correct()
    p.test("2.0.0", {one: "wrong", two: "right"}, at=ago(hours=1))
    p.test("2.0.0", {one: "right", two: "wrong"}, at=ago(hours=2))
    at = ago(minutes=1)
    p.deploy("2.0.0")
    p.work()
    assert (p.status(one), p.status(two)) == ("open", "fixed")
    p.test("2.0.0", {one: "wrong", two: "wrong"}, at=at)
    p.test("2.0.0", {one: "right", two: "right"}, at=at)
    p.work()
    assert (p.status(one), p.status(two)) == ("fixed", "fixed")
    assert "reopenedIn" not in p.of(two)
    assert [row["kind"] for row in p.history(two)][-3:] == ["fixed", "reopened", "fixed"]


# False alarms


def test_a_verdict_for_an_older_version_never_reopens(p: Project) -> None:
    one = p.correct()
    p.test("2.0.0", {one: "right"})
    p.deploy("2.0.0")
    p.test("1.5.0", {one: "wrong"})
    p.work()
    assert p.status(one) == "fixed"


def test_a_test_run_that_reports_late_counts_for_the_version_that_it_ran(p: Project) -> None:
    one = p.correct()
    p.deploy("1.0.0")
    started = ago(minutes=5)
    p.test("2.0.0", {one: "right"})
    p.deploy("2.0.0")
    p.test("1.0.0", {one: "wrong"}, at=started)
    p.work()
    assert p.status(one) == "fixed"


def test_nine_is_before_ten(p: Project) -> None:
    p.correct()
    p.deploy("1.9.0")
    assert p.pin("1.10.0")["changed"][0]["how"] == "pin"
    assert p.pin("1.9.0")["changed"][0]["how"] == "went-back"


def test_a_link_changes_nothing_by_itself(p: Project) -> None:
    one = p.correct()
    p.change(one, link=PULL)
    p.deploy("2.0.0")
    p.work()
    assert p.status(one) == "open"


def test_a_version_that_only_a_run_claims_has_no_effect(p: Project) -> None:
    one = p.correct()
    p.test("2.0.0", {one: "right"})
    p.correct(version="2.0.0")
    p.work()
    assert p.status(one) == "open"


def test_a_fix_in_its_own_version_is_none(p: Project) -> None:
    one = p.correct(version="1.0.0")
    p.deploy("1.0.0")
    p.test("1.0.0", {one: "right"})
    p.work()
    assert p.status(one) == "open"


# Resolves


def test_resolves_by_id_and_by_link(p: Project) -> None:
    by_id, by_link, neither = p.correct(), p.correct(), p.correct()
    p.change(by_link, link=PULL)
    p.change(neither, link=PULL | {"url": "https://example.com/pull/8"})
    p.deploy("2.0.0", resolves={"correctionIds": [by_id, "nope"], "links": [PULL, {"kind": "improve-run", "id": "1"}]})
    p.work()
    assert [p.status(one) for one in (by_id, by_link, neither)] == ["fixed", "fixed", "open"]
    assert p.history(by_id)[-1] == {
        "kind": "fixed", "from": "open", "to": "fixed", "version": "2.0.0", "how": "latest"
    }  # fmt: skip


def test_resolves_never_wins_over_a_wrong_verdict(p: Project) -> None:
    one = p.correct()
    p.test("2.0.0", {one: "wrong"})
    p.deploy("2.0.0", resolves={"correctionIds": [one]})
    p.work()
    assert p.status(one) == "open"


def test_resolves_counts_for_what_fits_when_it_is_accepted(p: Project) -> None:
    linked_later = p.correct()
    p.deploy("2.0.0", resolves={"links": [PULL]})
    p.change(linked_later, link=PULL)
    recorded_later = p.correct()
    p.change(recorded_later, link=PULL)
    p.work()
    assert (p.status(linked_later), p.status(recorded_later)) == ("open", "open")
    unlinked_later = p.correct()
    p.change(unlinked_later, link=PULL)
    p.pin("3.0.0", resolves={"links": [PULL]})
    assert p.change(unlinked_later, link=None)["status"] == "fixed"


def test_a_deploy_of_what_is_latest_decides_on_what_it_names(p: Project) -> None:
    one, other = p.correct(), p.correct()
    p.deploy("2.0.0")
    p.test("2.0.0", {other: "right"})
    p.work()
    p.change(other, status="open")
    running = p.client.get("/v1/projects/p/running").json
    assert p.deploy("2.0.0", resolves={"correctionIds": [one]})["changed"] == []
    p.work()
    assert (p.status(one), p.status(other)) == ("fixed", "open")
    assert p.client.get("/v1/projects/p/running").json == running
    again = p.correct()
    p.deploy("2.0.0", resolves={"correctionIds": [again]}, at=ago(hours=1))
    p.work()
    assert p.status(again) == "fixed"


def test_an_older_deploy_resolves_nothing(p: Project) -> None:
    one = p.correct()
    p.deploy("2.0.0")
    p.deploy("1.5.0", resolves={"correctionIds": [one]}, at=ago(hours=1))
    p.work()
    assert p.status(one) == "open"


def test_an_unpin_brings_back_what_the_deploy_of_latest_resolves(p: Project) -> None:
    one, other = p.correct(), p.correct()
    p.pin("1.0.0")
    p.deploy("2.0.0", resolves={"correctionIds": [one]})
    p.work()
    assert p.status(one) == "open"
    p.deploy("2.0.0", resolves={"correctionIds": [other]})
    freed = p.unpin()["changed"][0]
    p.work()
    assert p.of(one)["fixedIn"] == {"version": "2.0.0", "how": "latest", "by": ADMIN, "at": freed["at"]}
    assert p.status(other) == "open"


def test_resolves_reaches_only_its_own_subject_and_project(p: Project, admin: Client, engine: Engine) -> None:
    elsewhere, sales = Project(admin, engine, "q"), Project(admin, engine, subject={"kind": "agent", "id": "sales"})
    here, there, of_sales = p.correct(), elsewhere.correct(), sales.correct()
    everything = {"correctionIds": [here, there, of_sales]}
    p.pin("2.0.0", resolves=everything)
    for project in (p, elsewhere, sales):
        project.work()
    assert [p.status(one) for one in (here, there, of_sales)] == ["fixed", "open", "open"]
    p.deploy("3.0.0", resolves=everything)
    for project in (p, elsewhere, sales):
        project.work()
    assert [p.status(one) for one in (here, there, of_sales)] == ["fixed", "fixed", "open"]


# Pins and unpins that leave the version as it was


def test_a_pin_of_what_runs_decides_nothing_anew_but_what_it_resolves(p: Project) -> None:
    one, other = p.correct(), p.correct()
    p.deploy("2.0.0")
    p.test("2.0.0", {one: "right", other: "right"})
    p.work()
    for correction in (one, other):
        p.change(correction, status="open")
    p.pin("2.0.0", resolves={"correctionIds": [other]})
    p.work()
    assert (p.status(one), p.status(other)) == ("open", "fixed")
    p.change(other, status="open")
    p.unpin()
    p.work()
    assert (p.status(one), p.status(other)) == ("open", "open")


# Changes by hand, in their place


def test_a_status_set_by_hand_is_not_overturned_by_what_was_accepted_before(p: Project) -> None:
    one = p.correct()
    p.test("2.0.0", {one: "right"})
    p.deploy("2.0.0")
    shown = p.change(one, status="being-fixed")
    assert (shown["status"], "fixedIn" in shown) == ("being-fixed", False)
    assert [row["kind"] for row in p.history(one)] == ["recorded", "sorted", "fixed", "status"]
    p.work()
    assert p.status(one) == "being-fixed"
    p.test("2.0.0", {one: "right"})
    p.work()
    assert p.status(one) == "fixed"


def test_a_later_change_of_the_running_version_decides_anew(p: Project) -> None:
    one = p.correct()
    p.test("2.0.0", {one: "right"})
    p.deploy("2.0.0")
    p.change(one, status="open")
    p.pin("1.0.0")
    p.unpin()
    p.work()
    assert p.status(one) == "fixed"


def test_what_was_accepted_before_is_in_the_answer_of_a_change(p: Project) -> None:
    one = p.correct()
    tested = p.test("2.0.0", {one: "right"})
    deployed = p.deploy("2.0.0")["changed"][0]
    shown = p.change(one, sortedTo="developer")
    assert (shown["status"], shown["sortedTo"]) == ("fixed", "developer")
    assert shown["fixedIn"] == {"version": "2.0.0", "how": "latest", "at": deployed["at"]}
    again = p.test("2.0.0", {one: "wrong"})
    assert p.change(one, note="hm")["status"] == "open"
    p.work()
    assert p.counts(tested) == {"status": "applied", "right": 1, "unchanged": 1}
    assert p.counts(again) == {"status": "applied", "wrong": 1, "reopened": 1}


def test_an_etag_of_before_the_events_is_stale(p: Project) -> None:
    one = p.correct()
    etag = p.client.get(f"/v1/corrections/{one}").headers["ETag"]
    p.test("2.0.0", {one: "right"})
    p.deploy("2.0.0")
    answer = p.client.patch(f"/v1/corrections/{one}", {"status": "open"}, headers={"If-Match": etag})
    assert answer.status_code == 412
    p.work()
    assert p.status(one) == "fixed"


def test_wont_fix_is_never_touched(p: Project) -> None:
    one = p.correct()
    p.change(one, status="wont-fix")
    p.test("2.0.0", {one: "right"})
    p.deploy("2.0.0", resolves={"correctionIds": [one]})
    p.work()
    assert p.status(one) == "wont-fix"


def test_what_ended_before_a_worker_came_stays_as_it_stood(p: Project, admin: Client) -> None:
    superseded, removed = p.correct(), p.correct()
    p.test("2.0.0", {superseded: "right", removed: "right"})
    p.deploy("2.0.0")
    run = admin.get(f"/v1/corrections/{superseded}").json["runId"]
    admin.post("/v1/corrections", {"runId": run} | WRONG_ANSWER)
    assert admin.post(f"/v1/corrections/{removed}/remove").json["status"] == "removed"
    p.work()
    assert (p.status(superseded), p.status(removed)) == ("open", "removed")
    assert [row["kind"] for row in p.history(removed)] == ["recorded", "sorted", "removed"]


def test_what_was_recorded_after_an_event_is_not_decided_on_by_it(p: Project) -> None:
    p.deploy("2.0.0")
    one = p.correct()
    p.test("2.0.0", {one: "right"})
    p.work()
    assert p.status(one) == "fixed"
    fresh = p.correct()
    p.pin("2.0.0")
    p.work()
    assert p.status(fresh) == "open"


# What follows


def test_queues_and_notices_follow(p: Project, engine: Engine, tenant: str) -> None:
    one = p.correct(WRONG_DECISIONS)
    p.test("2.0.0", {one: "right"})
    p.deploy("2.0.0")
    p.work()
    p.test("2.0.0", {one: "wrong"})
    p.work()
    with reading(engine) as db:
        items = db.rows("SELECT queue, state FROM work_items WHERE tenant_id = %s ORDER BY created_at", (tenant,))
        jobs = db.rows("SELECT ids FROM outbox WHERE tenant_id = %s AND job LIKE '%%notify' ORDER BY id", (tenant,))
    assert items == [("owner", "ready")]
    told = [json.loads(ids) for (ids,) in jobs]
    assert told == [
        {"event": "correction.with-owner", "correctionId": one, "key": "1"},
        {"event": "correction.fixed", "correctionId": one, "key": "event-2"},
        {"event": "correction.reopened", "correctionId": one, "key": "event-3"},
        {"event": "correction.with-owner", "correctionId": one, "key": "event-3"},
    ]


def test_updated_at_and_the_etag_move_with_each_transition(p: Project, admin: Client) -> None:
    one = p.correct()
    before = admin.get(f"/v1/corrections/{one}")
    p.deploy("2.0.0")
    p.work()
    same = admin.get(f"/v1/corrections/{one}")
    assert (same.json["updatedAt"], same.headers["ETag"]) == (before.json["updatedAt"], before.headers["ETag"])
    p.test("2.0.0", {one: "right"})
    p.work()
    after = admin.get(f"/v1/corrections/{one}")
    assert after.json["updatedAt"] >= after.json["fixedIn"]["at"] > before.json["updatedAt"]
    assert after.headers["ETag"] != before.headers["ETag"]

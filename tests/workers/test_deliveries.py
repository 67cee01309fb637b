"""Messages reach their receivers: at least once, not again after success, whatever a receiver does."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import Engine
from standardwebhooks import Webhook

from app.domain import jobs, json_text
from app.domain.delivering import WAITS, Outcome
from app.domain.messages import EVENTS
from app.services import deliver, keep_endpoints
from app.services.keep_endpoints import Wanted
from app.services.vault import Vault, open_vault
from app.store import outbox
from app.store.engine import create_engine, reading
from app.store.migrate import migrate
from app.store.tokens import ensure_tenant
from app.transaction import transaction
from tests.conftest import new_database
from tests.outbound import Outbound
from tests.receiver import HANG, receiving, signed_by
from workers import deliveries
from workers.deliveries import Sender
from workers.housekeeping import Chore, chores, tend
from workers.task import Runner


def statuses(rows: list[dict[str, Any]]) -> list[str]:
    return [row["status"] for row in rows]


def test_a_receiver_that_fails_twice_hangs_and_recovers(outbound: Outbound) -> None:
    with receiving(500, 500, HANG, 200) as receiver:
        endpoint = outbound.endpoint(receiver.url)
        (correction,) = outbound.correct()
        outbound.work()
        for _ in range(3):
            outbound.send()
            outbound.send()
            assert statuses(outbound.deliveries(endpoint)) == ["pending"]
            outbound.time_passes()
        time.sleep(1)
        outbound.send()
        (delivery,) = outbound.deliveries(endpoint)
        outbound.time_passes()
        outbound.work()
        outbound.send()
        assert len(receiver.received) == 4, "nothing before it is due, nothing after success"
    assert delivery["status"] == "delivered"
    assert [attempt.get("status") for attempt in delivery["attempts"]] == [500, 500, None, 200]
    assert [attempt.get("error") for attempt in delivery["attempts"]] == [None, None, "timed out", None]
    assert {received.headers["webhook-id"] for received in receiver.received} == {delivery["id"]}
    assert len({received.body for received in receiver.received}) == 1
    moments = [int(received.headers["webhook-timestamp"]) for received in receiver.received]
    assert moments == sorted(moments)
    assert moments[0] < moments[3]
    for received in receiver.received:
        assert signed_by(outbound.secrets[endpoint], received)
        Webhook(outbound.secrets[endpoint]).verify(received.body, received.headers)
    body = json.loads(receiver.received[3].body)
    assert body["type"] == delivery["type"] == "correction.with-owner"
    assert body["data"]["correctionId"] == correction
    assert set(body["data"]) == {"correctionId", "projectId", "runId", "subject", "status", "sortedTo"}


def test_waits_grow_from_seconds(outbound: Outbound, engine: Engine) -> None:
    with receiving(500) as receiver:
        outbound.endpoint(receiver.url)
        outbound.correct()
        outbound.work()
        seen = []
        for _ in range(4):
            outbound.send()
            with reading(engine) as db:
                seen.append(
                    db.value(
                        "SELECT extract(epoch FROM due_at - clock_timestamp())::float8 FROM deliveries"
                        " WHERE tenant_id = %s",
                        (outbound.tenant,),
                    )
                )
            outbound.time_passes()
    for wait, nominal in zip(seen, WAITS, strict=False):
        assert nominal * 0.75 < wait < nominal * 1.25


def test_410_ends_the_endpoint_and_tells_its_makers(outbound: Outbound) -> None:
    outbound.own("ann")
    with receiving(410) as receiver, receiving(200) as projects:
        endpoint = outbound.endpoint(receiver.url, owner="ann")
        outbound.endpoint(projects.url, project=outbound.correct() and "p")
        outbound.correct()
        outbound.work()
        outbound.send()
        outbound.time_passes()
        outbound.send()
        assert 1 <= len(receiver.received) <= 2, "those that were on their way together"
        assert projects.received == []
        outbound.correct()
        outbound.work()
        outbound.send()
        assert len(projects.received) == 1, "what comes after goes where it goes without that endpoint"
    shown = outbound.shown(endpoint)
    assert shown["endedReason"] == "gone"
    assert shown["endedAt"]
    rows = outbound.deliveries(endpoint)
    assert statuses(rows) == ["failed", "failed"]
    assert [attempt["status"] for row in rows for attempt in row["attempts"]] == [410] * len(receiver.received)
    ended = {
        "type": "notification.endpoint-ended",
        "data": {"endpointId": endpoint, "kind": "webhook", "target": receiver.url, "reason": "gone"},
    }
    assert outbound.inbox("admin") == [ended]
    assert outbound.inbox("ann")[2:3] == [ended]


def test_lasting_failure_ends_the_endpoint_with_one_notice(outbound: Outbound, engine: Engine) -> None:
    with receiving(500) as receiver:
        endpoint = outbound.endpoint(receiver.url)
        outbound.correct(2)
        outbound.work()
        outbound.send()
        with transaction(engine) as tx:
            tx.run("UPDATE deliveries SET tries = %s WHERE tenant_id = %s", (len(WAITS), outbound.tenant))
        outbound.time_passes()
        outbound.send()
        outbound.time_passes()
        outbound.send()
    assert outbound.shown(endpoint)["endedReason"] == "failing"
    assert statuses(outbound.deliveries(endpoint)) == ["failed", "failed"]
    assert [row["type"] for row in outbound.inbox("admin")] == ["notification.endpoint-ended"]


def test_one_message_that_is_refused_for_ever_ends_nothing_else(outbound: Outbound, engine: Engine) -> None:
    with receiving(400, 200) as receiver:
        endpoint = outbound.endpoint(receiver.url)
        outbound.correct()
        outbound.work()
        outbound.send()
        outbound.correct()
        outbound.work()
        outbound.send()
        with transaction(engine) as tx:
            tx.run("UPDATE deliveries SET tries = %s WHERE tenant_id = %s", (len(WAITS), outbound.tenant))
        receiver.answers = [400]
        outbound.time_passes()
        outbound.send()
    assert statuses(outbound.deliveries(endpoint)) == ["failed", "delivered"]
    assert "endedAt" not in outbound.shown(endpoint)


def test_a_rotated_secret_signs_beside_the_new_one_for_a_while(outbound: Outbound, engine: Engine) -> None:
    with receiving(200) as receiver:
        endpoint = outbound.endpoint(receiver.url)
        first = outbound.secrets[endpoint]
        with transaction(engine) as tx:
            _, second = keep_endpoints.rotate_secret(tx, outbound.keeping(tx), outbound.admin.caller, endpoint)
        outbound.correct()
        outbound.work()
        outbound.send()
        with transaction(engine) as tx:
            tx.run(
                "UPDATE notification_endpoints SET former_secret_until = clock_timestamp() WHERE id = %s", (endpoint,)
            )
        outbound.correct()
        outbound.work()
        outbound.send()
    during, after = receiver.received
    assert len(during.headers["webhook-signature"].split(" ")) == 2
    assert signed_by(first, during)
    assert signed_by(second, during)
    assert signed_by(second, after)
    assert not signed_by(first, after)
    assert len(after.headers["webhook-signature"].split(" ")) == 1


def test_a_receiver_that_hangs_holds_up_nobody_else(outbound: Outbound) -> None:
    outbound.seconds = 6
    with receiving(HANG) as stuck, receiving(200) as quick:
        outbound.own("ann", "bob")
        outbound.endpoint(stuck.url, owner="ann")
        outbound.endpoint(quick.url, owner="bob")
        outbound.correct(12)
        outbound.work()
        sender = outbound.sender()
        started = time.monotonic()
        while sender.send_next():
            pass
        while len(quick.received) < 12 and time.monotonic() - started < 5:
            time.sleep(0.02)
            sender.send_next()
        took = time.monotonic() - started
        on_their_way = len(stuck.received)
        stuck.closing.set()
        sender.close()
    assert (len(quick.received), on_their_way) == (12, 2), "at most two at a time to one endpoint"
    assert took < 5


def test_failing_endpoints_share_half_of_the_slots(outbound: Outbound, engine: Engine) -> None:
    outbound.seconds = 6
    outbound.own(*(f"u{n}" for n in range(12)))
    with receiving(HANG) as stuck, receiving(200) as quick:
        for n in range(12):
            outbound.endpoint(stuck.url, owner=f"u{n}")
        with transaction(engine) as tx:
            tx.run("UPDATE notification_endpoints SET failing_since = clock_timestamp() WHERE tenant_id = %s",
                   (outbound.tenant,))  # fmt: skip
        outbound.correct()
        outbound.work()
        sender = outbound.sender()
        taken = sum(sender.send_next() for _ in range(12))
        assert taken == 4
        outbound.own()
        outbound.endpoint(quick.url)
        outbound.correct()
        outbound.work()
        assert sender.send_next()
        deadline = time.monotonic() + 5
        while not quick.received and time.monotonic() < deadline:
            time.sleep(0.02)
        assert len(quick.received) == 1
        stuck.closing.set()
        sender.close()


def test_what_a_dead_sender_had_in_hand_is_sent_again_under_its_id(outbound: Outbound, engine: Engine) -> None:
    with receiving(200) as receiver:
        endpoint = outbound.endpoint(receiver.url)
        outbound.correct()
        outbound.work()
        with transaction(engine) as tx:
            lost = deliver.take(tx, open_vault(tx, outbound.settings))
        outbound.send()
        assert receiver.received == [], "it is leased"
        outbound.time_passes()
        outbound.send()
        assert lost is not None
        assert [received.headers["webhook-id"] for received in receiver.received] == [lost.delivery_id]
        with transaction(engine) as tx:
            deliver.record(tx, lost, Outcome(500), 0.5)
        (row,) = outbound.deliveries(endpoint)
        assert row["status"] == "delivered", "who lost the lease changes nothing any more"
        assert [attempt["status"] for attempt in row["attempts"]] == [200, 500]


def test_a_success_counts_whoever_reports_it(outbound: Outbound, engine: Engine) -> None:
    endpoint = outbound.endpoint("http://127.0.0.1:9/")
    outbound.correct()
    outbound.work()
    taken = []
    for _ in range(2):
        with transaction(engine) as tx:
            taken.append(deliver.take(tx, open_vault(tx, outbound.settings)))
        outbound.time_passes()
    early, late = taken
    assert early
    assert late
    assert early.lease < late.lease
    with transaction(engine) as tx:
        deliver.record(tx, early, Outcome(503), 0.5)
    assert statuses(outbound.deliveries(endpoint)) == ["pending"]
    with transaction(engine) as tx:
        deliver.record(tx, early, Outcome(200), 0.5)
    with transaction(engine) as tx:
        deliver.record(tx, late, Outcome(500), 0.5)
    assert statuses(outbound.deliveries(endpoint)) == ["delivered"]


def test_senders_share_what_is_due_and_none_takes_what_another_has(outbound: Outbound, engine: Engine) -> None:
    outbound.own(*(f"u{n}" for n in range(20)))
    for n in range(20):
        outbound.endpoint("http://127.0.0.1:9/", owner=f"u{n}")
    outbound.correct(2)
    outbound.work()
    with transaction(engine) as tx:
        vault = open_vault(tx, outbound.settings)

    def take_all(_: int) -> list[str]:
        found = []
        misses = 0
        while misses < 3:
            with transaction(engine) as tx:
                parcel = deliver.take(tx, vault)
            misses += parcel is None
            found += [parcel.delivery_id] if parcel else []
        return found

    with ThreadPoolExecutor(4) as pool:
        taken = [delivery for found in pool.map(take_all, range(4)) for delivery in found]
    assert len(taken) == len(set(taken)) == 40


def test_endpoints_take_turns(outbound: Outbound, engine: Engine) -> None:
    outbound.own("ann", "bob")
    first, second = (outbound.endpoint("http://127.0.0.1:9/", owner=owner) for owner in ("ann", "bob"))
    outbound.correct(5)
    outbound.work()
    with transaction(engine) as tx:
        tx.run("UPDATE deliveries SET due_at = due_at - interval '1 hour' WHERE endpoint_id = %s", (first,))
        vault = open_vault(tx, outbound.settings)
        taken = [deliver.take(tx, vault) for _ in range(4)]
    assert Counter(parcel.endpoint_id for parcel in taken if parcel) == {first: 2, second: 2}


def test_a_delivery_can_be_sent_again_by_hand(outbound: Outbound) -> None:
    with receiving(200) as receiver:
        endpoint = outbound.endpoint(receiver.url)
        outbound.correct()
        outbound.work()
        outbound.send()
        (row,) = outbound.deliveries(endpoint)
        answer = outbound.admin.post(f"/v1/notification-endpoints/{endpoint}/deliveries/{row['id']}/redeliver")
        assert answer.status_code == 202
        assert answer.json == row | {"status": "pending"}
        outbound.send()
        outbound.send()
    assert [received.headers["webhook-id"] for received in receiver.received] == [row["id"]] * 2
    (after,) = outbound.deliveries(endpoint)
    assert (after["status"], len(after["attempts"])) == ("delivered", 2)


def test_a_test_message_goes_out_at_once_whatever_the_endpoint_takes(outbound: Outbound) -> None:
    with receiving(200) as receiver:
        endpoint = outbound.endpoint(receiver.url, events=("work.parked",), digest=3600)
        answer = outbound.admin.post(f"/v1/notification-endpoints/{endpoint}/test")
        outbound.send()
    assert answer.status_code == 202
    (received,) = receiver.received
    body = json.loads(received.body)
    assert (body["type"], body["data"]) == ("notification.test", {"endpointId": endpoint})
    assert outbound.deliveries(endpoint)[0]["status"] == "delivered"


def test_parked_work_is_told_like_any_other_event(outbound: Outbound, engine: Engine) -> None:
    with receiving(200) as receiver:
        outbound.endpoint(receiver.url, events=("work.parked",))
        (correction,) = outbound.correct()
        at = "2031-01-31T12:00:00.250Z"
        with transaction(engine) as tx:
            outbox.put(tx, outbound.tenant, [jobs.notify_parked(correction, "w-1", "owner", 5, at)])
        outbound.work()
        outbound.send()
    (received,) = receiver.received
    body = json.loads(received.body)
    assert body["timestamp"] == at, "when it was parked, not when its correction changed"
    more = {name: body["data"].pop(name) for name in ("correctionId", "workItemId", "queue", "attempt")}
    assert more == {"correctionId": correction, "workItemId": "w-1", "queue": "owner", "attempt": 5}
    assert body["data"].keys() == {"projectId", "runId", "subject", "status", "sortedTo"}


def test_a_target_that_became_private_is_refused_when_sending(outbound: Outbound) -> None:
    with receiving(200) as receiver:
        endpoint = outbound.endpoint(receiver.url)
        outbound.admin.post(f"/v1/notification-endpoints/{endpoint}/test")
        sender = Sender(outbound.engine, replace(outbound.settings, allow_private_targets=False))
        assert sender.send_next()
        sender.close()
        assert receiver.received == []
    (row,) = outbound.deliveries(endpoint)
    assert row["status"] == "pending"
    assert row["attempts"][0]["error"].startswith("target refused: ")


def test_secrets_of_another_key_are_said_to_be_unreadable(outbound: Outbound, engine: Engine) -> None:
    endpoint = outbound.endpoint("http://127.0.0.1:9/")
    slack = outbound.endpoint("http://127.0.0.1:9/services/abcdefghijkl", kind="slack")
    for id in (endpoint, slack):
        outbound.admin.post(f"/v1/notification-endpoints/{id}/test")
    sender = Sender(engine, replace(outbound.settings, secret_key="another", allow_private_targets=True))
    assert sender.send_next()
    assert sender.send_next()
    sender.close()
    for id in (endpoint, slack):
        assert "CORRIGENDA_SECRET_KEY" in outbound.deliveries(id)[0]["attempts"][0]["error"]
    assert Vault("a").open(Vault("b").seal("x")) is None
    assert Vault("a").open(Vault("a").seal("x")) == "x"


def test_a_sender_runs_until_it_is_stopped(outbound: Outbound) -> None:
    stop = threading.Event()
    with receiving(200) as receiver:
        endpoint = outbound.endpoint(receiver.url)
        running = threading.Thread(target=outbound.sender().run, args=(stop,))
        running.start()
        try:
            outbound.correct()
            outbound.work()
            deadline = time.monotonic() + 5
            while not receiver.received and time.monotonic() < deadline:
                time.sleep(0.02)
        finally:
            stop.set()
            running.join(10)
    assert not running.is_alive()
    assert statuses(outbound.deliveries(endpoint)) == ["delivered"]


def test_a_sender_outlives_a_database_that_is_not_ready(
    outbound: Outbound, server_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deliveries, "AWAY_SECONDS", 0.05)
    url, stop = new_database(server_url), threading.Event()
    settings = replace(outbound.settings, database_url=url, allow_private_targets=True)
    engine = create_engine(url)
    running = threading.Thread(target=Sender(engine, settings).run, args=(stop,))
    running.start()
    time.sleep(0.3)
    migrate(url)
    caller = replace(outbound.admin.caller, tenant_id="t")
    with receiving(200) as receiver:
        with transaction(engine) as tx:
            ensure_tenant(tx, "t")
            wanted = Wanted("webhook", receiver.url, EVENTS, "tenant")
            endpoint, _ = keep_endpoints.register(tx, outbound.keeping(tx), caller, wanted)
            keep_endpoints.send_test(tx, caller, endpoint.id)
        deadline = time.monotonic() + 10
        while not receiver.received and time.monotonic() < deadline:
            time.sleep(0.02)
    stop.set()
    running.join(10)
    engine.dispose()
    assert len(receiver.received) == 1
    assert not running.is_alive()


def test_the_log_of_ended_deliveries_is_purged_in_its_time(outbound: Outbound, engine: Engine) -> None:
    with receiving(200, 500) as receiver:
        endpoint = outbound.endpoint(receiver.url)
        for _ in range(2):
            outbound.correct()
            outbound.work()
            outbound.send()
    tend(Runner(outbound.settings), housekeeping(outbound))
    assert statuses(outbound.deliveries(endpoint)) == ["delivered", "pending"]
    with transaction(engine) as tx:
        tx.run("UPDATE deliveries SET created_at = created_at - interval '40 days',"
               " ended_at = ended_at - interval '31 days' WHERE tenant_id = %s", (outbound.tenant,))  # fmt: skip
    tend(Runner(outbound.settings), housekeeping(outbound))
    assert statuses(outbound.deliveries(endpoint)) == ["pending"]


def test_what_came_to_wait_while_its_endpoint_ended_fails(outbound: Outbound, engine: Engine) -> None:
    with receiving(200) as receiver:
        endpoint = outbound.endpoint(receiver.url)
        outbound.admin.post(f"/v1/notification-endpoints/{endpoint}/test")
        with transaction(engine) as tx:
            tx.run(
                "UPDATE notification_endpoints SET ended_at = now(), ended_reason = 'gone' WHERE id = %s", (endpoint,)
            )
        outbound.send()
        assert receiver.received == []
    assert statuses(outbound.deliveries(endpoint)) == ["pending"]
    tend(Runner(outbound.settings), housekeeping(outbound))
    assert statuses(outbound.deliveries(endpoint)) == ["failed"]


def housekeeping(outbound: Outbound) -> Chore:
    return next(chore for chore in chores(outbound.settings) if chore.job == jobs.HOUSEKEEPING)


def test_slack_gets_text(outbound: Outbound) -> None:
    with receiving(200) as receiver:
        endpoint = outbound.endpoint(receiver.url + "/services/T/B/abcdefghijkl", kind="slack")
        (correction,) = outbound.correct()
        outbound.work()
        outbound.send()
    (received,) = receiver.received
    assert received.path == "/hook/services/T/B/abcdefghijkl"
    assert "webhook-signature" not in received.headers
    payload = json_text.parse(received.body.decode())
    assert f"<https://c.test/v1/corrections/{correction}|" in payload["text"]
    assert outbound.shown(endpoint)["target"].endswith("/services/T/B/…ijkl")

"""Many events inside an endpoint's digest time come as one message, each of them once."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import Engine

from app.channels.email import MailServer
from app.services import deliver
from app.services.notify import Event, tell_owners
from app.services.vault import open_vault
from app.store.engine import reading
from app.transaction import transaction
from tests.mailbox import Mailbox, receiving_mail
from tests.outbound import Outbound
from tests.receiver import receiving


@pytest.fixture
def mailbox(outbound: Outbound) -> Iterator[Mailbox]:
    """A mail server on loopback that ``outbound`` hands its mail to."""
    with receiving_mail() as (box, url):
        outbound.mail_server = MailServer.of(url)
        yield box


def test_200_corrections_of_one_owner_are_one_mail(outbound: Outbound, mailbox: Mailbox) -> None:
    outbound.own("ann", "ann")
    outbound.endpoint("ann@example.com", kind="email", owner="ann", digest=60)
    outbound.endpoint("ann@example.com", kind="email", project=outbound.correct() and "p", digest=60)
    corrections = outbound.correct(199)
    outbound.work()
    outbound.send()
    assert mailbox.mails == [], "nothing inside the digest time"
    outbound.time_passes()
    outbound.send()
    outbound.time_passes()
    outbound.send()
    ((to, mail),) = mailbox.mails
    assert to == ["ann@example.com"]
    assert mail["Subject"] == "[Corrigenda] 200 notifications"
    assert mail["From"] == "c@corrigenda.test"
    assert mail["Auto-Submitted"] == "auto-generated"
    plain, html = mail.get_body(("plain",)), mail.get_body(("html",))
    assert plain is not None
    assert html is not None
    assert plain.get_content().count("https://c.test/v1/corrections/") == 100
    assert "and 100 more" in plain.get_content()
    assert html.get_content().count("<li>") == 100
    assert "https://c.test/v1/corrections/" + corrections[0] in html.get_content()
    with reading(outbound.engine) as db:
        waiting = "SELECT count(*) FROM corrections WHERE tenant_id = %s AND status = 'with-owner'"
        assert db.value(waiting, (outbound.tenant,)) == 200


def test_an_owner_with_two_roles_gets_one_copy(outbound: Outbound, mailbox: Mailbox) -> None:
    outbound.own("ann", "bob")
    outbound.endpoint("ann@example.com", kind="email", owner="ann")
    (correction,) = outbound.correct()
    outbound.endpoint("ann@example.com", kind="email", project="p")
    outbound.work()
    outbound.send()
    ((to, mail),) = mailbox.mails
    assert to == ["ann@example.com"]
    assert mail["Subject"].endswith("in project p waits for its owner.")
    plain = mail.get_body(("plain",))
    assert plain is not None
    assert plain.get_content().rstrip().endswith(f"https://c.test/v1/corrections/{correction}")


def test_a_mail_server_that_refuses_is_tried_again_with_the_same_message(outbound: Outbound, mailbox: Mailbox) -> None:
    mailbox.refuses = ["451 later"]
    endpoint = outbound.endpoint("ann@example.com", kind="email")
    outbound.correct()
    outbound.work()
    outbound.send()
    (row,) = outbound.deliveries(endpoint)
    assert [attempt["error"] for attempt in row["attempts"]] == ["the mail server refused the address: 451"]
    outbound.time_passes()
    outbound.send()
    ((_, mail),) = mailbox.mails
    assert mail["Message-ID"] == f"<{row['id']}@corrigenda.test>"
    assert outbound.deliveries(endpoint)[0]["status"] == "delivered"


def test_without_a_mail_server_the_log_says_so(outbound: Outbound) -> None:
    endpoint = outbound.endpoint("ann@example.com", kind="email")
    outbound.admin.post(f"/v1/notification-endpoints/{endpoint}/test")
    outbound.send()
    outbound.mail_server = MailServer.of("smtp://127.0.0.1:9")
    outbound.time_passes()
    outbound.send()
    attempts = outbound.deliveries(endpoint)[0]["attempts"]
    assert [attempt["error"] for attempt in attempts] == [
        "no mail server is set: CORRIGENDA_SMTP_URL",
        "the mail server can't be reached: Connection refused",
    ]


def test_a_digest_shows_a_hundred_and_counts_all(outbound: Outbound) -> None:
    with receiving(200) as receiver:
        endpoint = outbound.endpoint(receiver.url, digest=60)
        corrections = outbound.correct(130)
        outbound.work()
        (waiting,) = outbound.deliveries(endpoint)
        outbound.time_passes()
        outbound.send()
    (received,) = receiver.received
    digest = json.loads(received.body)
    assert digest["type"] == waiting["type"] == "notification.digest"
    assert digest["data"]["total"] == 130
    events = digest["data"]["events"]
    assert [event["data"]["correctionId"] for event in events] == corrections[:100], "the first, in their order"
    assert {event["type"] for event in events} == {"correction.with-owner"}
    assert set(events[0]) == {"type", "timestamp", "data"}


def test_one_event_alone_comes_as_itself(outbound: Outbound) -> None:
    with receiving(200) as receiver:
        endpoint = outbound.endpoint(receiver.url, digest=60)
        (correction,) = outbound.correct()
        outbound.work()
        assert outbound.deliveries(endpoint)[0]["type"] == "correction.with-owner"
        outbound.time_passes()
        outbound.send()
    body = json.loads(receiver.received[0].body)
    assert (body["type"], body["data"]["correctionId"]) == ("correction.with-owner", correction)


def test_without_a_digest_time_each_comes_at_once(outbound: Outbound) -> None:
    with receiving(200) as receiver:
        outbound.endpoint(receiver.url, digest=0)
        corrections = outbound.correct(3)
        outbound.work()
        outbound.send()
    told = [json.loads(received.body)["data"]["correctionId"] for received in receiver.received]
    assert sorted(told) == sorted(corrections)
    assert len({received.headers["webhook-id"] for received in receiver.received}) == 3


@pytest.mark.parametrize("digest", [0, 60])
def test_what_was_told_is_not_told_again(outbound: Outbound, digest: int) -> None:
    with receiving(200) as receiver:
        endpoint = outbound.endpoint(receiver.url, digest=digest)
        outbound.correct(3)
        outbound.work()
        outbound.again()
        before = len(outbound.deliveries(endpoint))
        outbound.time_passes()
        outbound.send()
        outbound.again()
        assert len(outbound.deliveries(endpoint)) == before
        outbound.time_passes()
        outbound.send()
        if digest:
            assert json.loads(receiver.received[0].body)["data"]["total"] == 3
    assert len(receiver.received) == (1 if digest else 3)


def test_what_comes_after_the_digest_is_due_is_in_the_next(outbound: Outbound) -> None:
    with receiving(200) as receiver:
        endpoint = outbound.endpoint(receiver.url, digest=60)
        outbound.correct(2)
        outbound.work()
        outbound.time_passes()
        outbound.correct(3)
        outbound.work()
        assert len(outbound.deliveries(endpoint)) == 2
        outbound.send()
        outbound.time_passes()
        outbound.send()
    assert [json.loads(received.body)["data"]["total"] for received in receiver.received] == [2, 3]


@pytest.mark.parametrize(("seconds", "sent"), [(0, 1), (1, 1), (7200, 0)])
def test_a_shorter_digest_time_brings_what_waits_forward(outbound: Outbound, seconds: int, sent: int) -> None:
    with receiving(200) as receiver:
        endpoint = outbound.endpoint(receiver.url, digest=3600)
        outbound.correct()
        outbound.work()
        with transaction(outbound.engine) as tx:
            tx.run(
                "UPDATE deliveries SET created_at = created_at - interval '1 minute', due_at = due_at - interval"
                " '1 minute' WHERE tenant_id = %s",
                (outbound.tenant,),
            )
        changed = outbound.admin.patch(f"/v1/notification-endpoints/{endpoint}", {"digestSeconds": seconds})
        assert changed.json["digestSeconds"] == seconds
        outbound.send()
        assert len(receiver.received) == sent


def test_kinds_of_events_share_a_digest_and_each_endpoint_gets_its_own(outbound: Outbound) -> None:
    with receiving(200) as all_events, receiving(200) as superseded:
        outbound.endpoint(all_events.url, digest=60)
        outbound.endpoint(superseded.url, digest=60, events=("correction.superseded",))
        (first,) = outbound.correct()
        with reading(outbound.engine) as db:
            run = db.value("SELECT run_id FROM corrections WHERE id = %s", (first,))
        (second,) = outbound.correct(run_id=run)
        outbound.work()
        outbound.time_passes()
        outbound.send()
    events = json.loads(all_events.received[0].body)["data"]["events"]
    told = sorted((event["type"], event["data"]["correctionId"]) for event in events)
    assert told == sorted([
        ("correction.with-owner", first), ("correction.superseded", first), ("correction.with-owner", second),
    ])  # fmt: skip
    alone = json.loads(superseded.received[0].body)
    assert (alone["type"], alone["data"]["supersededBy"]) == ("correction.superseded", second)


def test_many_writers_fill_one_message(outbound: Outbound) -> None:
    corrections = outbound.correct(40)
    endpoint = outbound.endpoint("http://127.0.0.1:9/", digest=60)
    ready = threading.Barrier(4)

    def tell(part: list[str]) -> None:
        ready.wait()
        for correction in part:
            with transaction(outbound.engine) as tx:
                tell_owners(tx, outbound.tenant, [Event("correction.fixed", correction, "1")])

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(tell, [corrections[n::4] for n in range(4)]))
    assert [row["type"] for row in outbound.deliveries(endpoint)] == ["notification.digest"]
    outbound.time_passes()
    with transaction(outbound.engine) as tx:
        parcel = deliver.take(tx, open_vault(tx, outbound.settings))
    assert parcel is not None
    assert json.loads(parcel.body)["data"]["total"] == 40


def test_a_digest_waits_for_writers_that_are_in_the_middle(outbound: Outbound, engine: Engine) -> None:
    first, second = outbound.correct(2)
    outbound.endpoint("http://127.0.0.1:9/", digest=60)
    with transaction(engine) as tx:
        tell_owners(tx, outbound.tenant, [Event("correction.fixed", first, "1")])
        vault = open_vault(tx, outbound.settings)
    with transaction(engine) as writer:
        tell_owners(writer, outbound.tenant, [Event("correction.fixed", second, "1")])
        writer.run("UPDATE deliveries SET due_at = clock_timestamp() WHERE tenant_id = %s", (outbound.tenant,))
        with transaction(engine) as sender:
            assert deliver.take(sender, vault) is None
    with transaction(engine) as sender:
        parcel = deliver.take(sender, vault)
    assert parcel is not None
    assert json.loads(parcel.body)["data"]["total"] == 2


def test_words_hold_nothing_that_a_person_wrote(outbound: Outbound, engine: Engine) -> None:
    marker = "MARKER-7f3a"
    outbound.endpoint("http://127.0.0.1:9/", digest=0)
    outbound.correct(why=marker, answer="wrong", shouldSay=marker)
    outbound.work()
    outbound.send()
    with reading(engine) as db:
        rows = db.rows("SELECT d::text FROM deliveries d WHERE tenant_id = %s", (outbound.tenant,))
        rows += db.rows("SELECT w::text FROM delivery_words w WHERE tenant_id = %s", (outbound.tenant,))
    assert len(rows) == 2
    assert marker not in repr(rows)

from __future__ import annotations

import re
from typing import Any

import pytest
from sqlalchemy import Engine

from app.domain.messages import EVENTS
from app.domain.model import Grant
from app.store.engine import reading
from tests.client import Client
from tests.conftest import ClientOf
from tests.factories import a_project

PATH = "/v1/notification-endpoints"


def wanted(**over: Any) -> dict[str, Any]:
    return {
        "kind": "webhook",
        "target": "https://hooks.invalid/corrigenda?x=1",
        "events": ["correction.with-owner", "correction.fixed"],
        "scope": {"kind": "tenant"},
    } | over


def made(client: Client, **over: Any) -> dict[str, Any]:
    answer = client.post(PATH, wanted(**over))
    assert answer.status_code == 201, answer.text
    return dict(answer.json)


def code(answer: Any) -> tuple[int, str]:
    return answer.status_code, answer.json["error"]["code"]


def test_a_webhook_is_registered_and_its_secret_shown_once(admin: Client) -> None:
    endpoint = made(admin)
    assert re.fullmatch(r"whsec_[A-Za-z0-9+/]{43}=", endpoint.pop("secret"))
    assert {name: endpoint[name] for name in ("kind", "target", "events", "scope", "digestSeconds", "madeBy")} == {
        "kind": "webhook",
        "target": "https://hooks.invalid/corrigenda?x=1",
        "events": ["correction.with-owner", "correction.fixed"],
        "scope": {"kind": "tenant"},
        "digestSeconds": 60,
        "madeBy": {"kind": "user", "id": "admin"},
    }
    assert endpoint["createdAt"] == endpoint["updatedAt"]
    assert admin.get(f"{PATH}/{endpoint['id']}").json == endpoint
    assert admin.get(PATH).json == {"data": [endpoint], "hasMore": False}


def test_secrets_are_nowhere_in_the_clear(admin: Client, engine: Engine) -> None:
    hook = "https://hooks.slack.com/services/T01/B02/AbCdEfGhIjKlMnOp"
    webhook, slack = made(admin), made(admin, kind="slack", target=hook)
    assert slack["target"] == "https://hooks.slack.com/services/T01/B02/…MnOp"
    assert "secret" not in slack
    with reading(engine) as db:
        rows = db.rows(
            "SELECT e::text, encode(secret_sealed, 'escape') FROM notification_endpoints e WHERE tenant_id = %s",
            (admin.caller.tenant_id,),
        )
    text = repr(rows)
    assert len(rows) == 2
    assert webhook["secret"].removeprefix("whsec_") not in text
    assert "AbCdEfGh" not in text


def test_an_answer_with_a_secret_is_not_kept(admin: Client) -> None:
    key = {"Idempotency-Key": "k"}
    assert admin.post(PATH, wanted(), headers=key).status_code == 201
    assert code(admin.post(PATH, wanted(), headers=key)) == (409, "idempotency-key-replay-withheld")
    mail = wanted(kind="email", target="ann@example.com")
    first = admin.post(PATH, mail, headers={"Idempotency-Key": "m"})
    again = admin.post(PATH, mail, headers={"Idempotency-Key": "m"})
    assert (again.status_code, again.data) == (201, first.data), "without a secret it is kept like any other"


def test_the_most_that_can_be_asked_for(admin: Client) -> None:
    endpoint = made(admin, events=[*EVENTS, "work.parked"], digestSeconds=0, kind="email", target="Ann@Example.com")
    assert endpoint["events"] == list(EVENTS)
    assert (endpoint["digestSeconds"], endpoint["target"]) == (0, "Ann@example.com")


@pytest.mark.parametrize(
    ("over", "path"),
    [
        ({"kind": "sms"}, "/kind"),
        ({"target": ""}, "/target"),
        ({"target": None}, "/target"),
        ({"target": 1}, "/target"),
        ({"target": "not a url"}, "/target"),
        ({"target": "https://user:pw@hooks.invalid/"}, "/target"),
        ({"target": "https://127.0.0.1/"}, "/target"),
        ({"target": "https://[::1]/"}, "/target"),
        ({"target": "https://[::ffff:10.0.0.1]/"}, "/target"),
        ({"target": "https://169.254.169.254/latest/meta-data"}, "/target"),
        ({"target": "https://2130706433/"}, "/target"),
        ({"target": "https://localhost:8443/"}, "/target"),
        ({"target": "https://localhost.localhost/"}, "/target"),
        ({"target": "https://hooks.invalid:25/"}, "/target"),
        ({"kind": "slack", "target": "http://10.1.2.3/"}, "/target"),
        ({"kind": "email"}, "/target"),
        ({"kind": "email", "target": "a@b.example, c@d.example"}, "/target"),
        ({"events": []}, "/events"),
        ({"events": "correction.fixed"}, "/events"),
        ({"events": ["correction.nope"]}, "/events/0"),
        ({"events": ["notification.endpoint-ended"]}, "/events/0"),
        ({"digestSeconds": -1}, "/digestSeconds"),
        ({"digestSeconds": 86401}, "/digestSeconds"),
        ({"digestSeconds": 1.5}, "/digestSeconds"),
        ({"digestSeconds": None}, "/digestSeconds"),
        ({"scope": {"kind": "org"}}, "/scope/kind"),
        ({"scope": {"kind": "project"}}, "/scope/projectId"),
        ({"scope": {"kind": "tenant", "projectId": "p"}}, "/scope/projectId"),
        ({"scope": {"kind": "principal"}}, "/scope/principal"),
        ({"scope": {"kind": "principal", "principal": {"kind": "user"}}}, "/scope/principal/id"),
        ({"scope": {"kind": "principal", "principal": {"kind": "rule", "id": "x"}}}, "/scope/principal/kind"),
    ],
)
def test_what_cannot_be_registered_is_named(admin: Client, over: dict[str, Any], path: str) -> None:
    answer = admin.post(PATH, wanted(**over))
    assert code(answer) == (400, "bad-input")
    assert [issue["path"] for issue in answer.json["error"]["details"]["issues"]] == [path]


def test_unknown_fields_are_refused(admin: Client) -> None:
    assert code(admin.post(PATH, wanted(secret="whsec_mine"))) == (400, "unknown-field")
    endpoint = made(admin)
    assert code(admin.patch(f"{PATH}/{endpoint['id']}", {"kind": "email"})) == (400, "unknown-field")
    assert code(admin.patch(f"{PATH}/{endpoint['id']}", {})) == (400, "bad-input")


def test_a_change_keeps_what_it_leaves_out(admin: Client) -> None:
    endpoint = made(admin)
    changed = admin.patch(f"{PATH}/{endpoint['id']}", {"digestSeconds": 0})
    assert changed.status_code == 200
    assert changed.json["digestSeconds"] == 0
    changed = admin.patch(f"{PATH}/{endpoint['id']}", {"events": ["work.parked"], "target": "https://b.invalid/"}).json
    assert (changed["events"], changed["target"]) == (["work.parked"], "https://b.invalid/")
    assert changed["digestSeconds"] == 0
    assert changed["updatedAt"] >= endpoint["updatedAt"]
    assert admin.get(f"{PATH}/{endpoint['id']}").json == changed
    refused = admin.patch(f"{PATH}/{endpoint['id']}", {"target": "http://[fc00::1]/"})
    assert code(refused) == (400, "bad-input")
    mail = made(admin, kind="email", target="a@b.example")
    assert code(admin.patch(f"{PATH}/{mail['id']}", {"target": "https://b.invalid/"})) == (400, "bad-input")


def test_an_unregistered_endpoint_stays_to_be_seen_and_nothing_more(admin: Client) -> None:
    endpoint = made(admin)
    path = f"{PATH}/{endpoint['id']}"
    waiting = admin.post(f"{path}/test").json
    gone = admin.post(f"{path}/unregister")
    assert gone.status_code == 200
    assert gone.json["unregisteredAt"] >= endpoint["createdAt"]
    assert admin.post(f"{path}/unregister").json == gone.json == admin.get(path).json
    assert admin.get(PATH).json["data"] == []
    assert admin.get(f"{path}/deliveries").json["data"] == [waiting | {"status": "failed"}]
    for answer in (
        admin.patch(path, {"digestSeconds": 1}),
        admin.post(f"{path}/test"),
        admin.post(f"{path}/rotate-secret"),
        admin.post(f"{path}/deliveries/{waiting['id']}/redeliver"),
    ):
        assert code(answer) == (409, "notification-endpoint-ended")


def test_only_webhooks_have_a_secret_to_rotate(admin: Client) -> None:
    endpoint = made(admin)
    rotated = admin.post(f"{PATH}/{endpoint['id']}/rotate-secret", headers={"Idempotency-Key": "r"})
    assert rotated.status_code == 200
    assert rotated.json["secret"].startswith("whsec_")
    assert rotated.json["secret"] != endpoint["secret"]
    withheld = admin.post(f"{PATH}/{endpoint['id']}/rotate-secret", headers={"Idempotency-Key": "r"})
    assert code(withheld) == (409, "idempotency-key-replay-withheld")
    mail = made(admin, kind="email", target="a@b.example")
    assert code(admin.post(f"{PATH}/{mail['id']}/rotate-secret")) == (400, "bad-input")


def test_what_is_not_there_is_404(admin: Client, client_of: ClientOf) -> None:
    endpoint = made(admin)
    stranger = client_of(role="admin", tenant_id=f"{admin.caller.tenant_id}-other")
    for client, path in ((admin, f"{PATH}/nope"), (stranger, f"{PATH}/{endpoint['id']}")):
        answers = [client.get(path), client.patch(path, {"digestSeconds": 1}), client.get(f"{path}/deliveries")]
        answers += [client.post(f"{path}/{verb}") for verb in ("unregister", "test", "rotate-secret")]
        answers += [client.post(f"{path}/deliveries/x/redeliver")]
        assert {code(answer) for answer in answers} == {(404, "notification-endpoint-not-found")}
    missing = admin.post(f"{PATH}/{endpoint['id']}/deliveries/nope/redeliver")
    assert code(missing) == (404, "delivery-not-found")
    assert stranger.get(PATH).json["data"] == []


def test_who_manages_what(admin: Client, client_of: ClientOf, engine: Engine) -> None:
    a_project(engine, admin.caller.tenant_id, "p", "o")
    a_project(engine, admin.caller.tenant_id, "q")
    ann = {"kind": "principal", "principal": {"kind": "user", "id": "ann"}}
    scopes = {"t": {"kind": "tenant"}, "p": {"kind": "project", "projectId": "p"}, "ann": ann}
    ids = {name: made(admin, scope=scope)["id"] for name, scope in scopes.items()}
    clients = {
        "ann": client_of(user="ann"),
        "bob": client_of(user="bob", grants=[Grant("tenant", "write")]),
        "lead": client_of(user="lead", grants=[Grant("project", "admin", "p"), Grant("project", "read", "q")]),
        "org": client_of(user="org", grants=[Grant("org", "admin", "o")]),
        "reader": client_of(user="reader", grants=[Grant("project", "read", "p")]),
        "root": client_of(user="root", grants=[Grant("tenant", "admin")]),
    }
    listed = {name: {row["id"] for row in client.get(PATH).json["data"]} for name, client in clients.items()}
    seen = {
        name: {key for key, id in ids.items() if client.get(f"{PATH}/{id}").status_code == 200}
        for name, client in clients.items()
    }
    expected: dict[str, set[str]] = {
        "ann": {"ann"}, "bob": set(), "lead": {"p"}, "org": {"p"}, "reader": set(), "root": {"t", "p", "ann"},
    }  # fmt: skip
    assert seen == expected
    assert listed == {name: {ids[key] for key in keys} for name, keys in expected.items()}
    assert code(clients["ann"].get(f"{PATH}/{ids['t']}")) == (403, "permission-denied")
    assert code(clients["reader"].get(f"{PATH}/{ids['p']}")) == (403, "permission-denied")
    assert code(clients["ann"].get(f"{PATH}/{ids['p']}")) == (404, "notification-endpoint-not-found")
    assert code(clients["bob"].post(f"{PATH}/{ids['ann']}/test")) == (403, "permission-denied")


def test_who_registers_what(admin: Client, client_of: ClientOf, engine: Engine) -> None:
    a_project(engine, admin.caller.tenant_id, "p")
    ann, lead = client_of(user="ann"), client_of(user="lead", grants=[Grant("project", "admin", "p")])
    its = {"kind": "principal", "principal": {"kind": "user", "id": "ann"}}
    assert made(ann, scope=its)["scope"] == its
    assert code(lead.post(PATH, wanted(scope=its))) == (403, "permission-denied")
    assert code(ann.post(PATH, wanted())) == (403, "permission-denied")
    project = {"kind": "project", "projectId": "p"}
    assert made(lead, scope=project)["scope"] == project
    assert code(ann.post(PATH, wanted(scope=project))) == (404, "project-not-found")
    reader = client_of(grants=[Grant("project", "read", "p")])
    assert code(reader.post(PATH, wanted(scope=project))) == (403, "permission-denied")
    nowhere = wanted(scope={"kind": "project", "projectId": "nope"})
    assert code(admin.post(PATH, nowhere)) == (404, "project-not-found")
    service = {"kind": "service", "id": "ann"}
    other = wanted(scope={"kind": "principal", "principal": service})
    assert code(ann.post(PATH, other)) == (403, "permission-denied"), "a service of that name is somebody else"


def test_deliveries_page_newest_first_and_their_cursor_fits_one_endpoint(admin: Client) -> None:
    endpoint, other = made(admin), made(admin)
    path = f"{PATH}/{endpoint['id']}"
    sent = [admin.post(f"{path}/test").json for _ in range(3)]
    assert sent[0] == {"id": sent[0]["id"], "type": "notification.test", "status": "pending", "attempts": []}
    first = admin.get(f"{path}/deliveries?limit=2").json
    assert [row["id"] for row in first["data"]] == [sent[2]["id"], sent[1]["id"]]
    rest = admin.get(f"{path}/deliveries?limit=2&cursor={first['nextCursor']}").json
    assert rest == {"data": [sent[0]], "hasMore": False}
    elsewhere = admin.get(f"{PATH}/{other['id']}/deliveries?limit=2&cursor={first['nextCursor']}")
    assert code(elsewhere) == (400, "bad-input")


def test_pages_of_endpoints_hold_each_once(admin: Client) -> None:
    ids = [made(admin)["id"] for _ in range(5)]
    first = admin.get(f"{PATH}?limit=3").json
    rest = admin.get(f"{PATH}?limit=3&cursor={first['nextCursor']}").json
    assert [row["id"] for row in first["data"] + rest["data"]] == ids[::-1]

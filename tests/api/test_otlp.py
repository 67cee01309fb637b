"""POST /otlp/v1/traces by OTLP/HTTP's specification: forms, limits, errors, projects."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest
from flask import Flask
from google.rpc.error_details_pb2 import BadRequest
from google.rpc.status_pb2 import Status
from sqlalchemy import Engine

from app.config import Settings
from app.domain.model import Grant
from app.wsgi import create_app
from tests.api.otlp import (
    JSON,
    PATH,
    PROTOBUF,
    a_span,
    a_tool_span,
    a_trace,
    an_agent_span,
    export,
    in_protobuf,
    request_of,
    status,
    turned_away,
)
from tests.client import Client
from tests.conftest import ClientOf
from tests.factories import a_project

FORMS = pytest.mark.parametrize("form", [JSON, PROTOBUF])


@pytest.fixture
def writer(client_of: ClientOf, engine: Engine, tenant: str) -> Client:
    a_project(engine, tenant)
    return client_of(grants=[Grant("project", "write", "p")])


@FORMS
@pytest.mark.parametrize("packed", [False, True])
def test_spans_become_a_run(writer: Client, form: str, packed: bool) -> None:
    trace = a_trace()
    body = request_of(a_tool_span(trace), an_agent_span(trace, **{"gen_ai.conversation.id": "chat-1"}))
    answer = export(writer, body, form, packed=packed)
    assert turned_away(answer) == (0, "")
    assert answer.data == (b"{}" if form == JSON else b"")
    run = writer.get(f"/v1/runs/{trace}").json
    assert {name: run[name] for name in ("id", "projectId", "subject", "status", "conversationId", "calls")} == {
        "id": trace,
        "projectId": "p",
        "subject": {"kind": "agent", "id": "support", "version": "3.1"},
        "status": "completed",
        "conversationId": "chat-1",
        "calls": [{"toolId": "cancel", "arguments": {"order": "A-1"}, "result": {"ok": True}}],
    }
    assert run["output"][0]["parts"][0]["content"] == "Done."
    assert (run["startedAt"], run["finishedAt"]) == ("2026-11-30T12:00:00.000Z", "2026-11-30T12:00:09.000Z")


@FORMS
def test_nothing_is_sent_and_that_is_fine(writer: Client, form: str) -> None:
    empty = b"" if form == PROTOBUF else b"{}"
    assert turned_away(export(writer, empty, form)) == (0, "")
    assert turned_away(export(writer, {"resourceSpans": []}, form)) == (0, "")


def test_json_as_otlp_has_it(writer: Client) -> None:
    trace = a_trace()
    span = an_agent_span(trace.upper()) | {
        "surprise": {"a": [1]},
        "kind": 3,
        "droppedAttributesCount": 0,
        "links": None,
    }
    span["status"] = {"code": 2, "message": "no"}
    span["attributes"] += [
        {"key": "gen_ai.agent.version", "value": {"intValue": "4"}},
        {"key": "gen_ai.x", "value": {"doubleValue": "NaN"}},
        {"key": "gen_ai.y", "value": {"arrayValue": {"values": [{"bytesValue": "AAE="}, {"boolValue": True}, {}]}}},
        {"key": "gen_ai.z", "value": {"kvlistValue": {"values": [{"key": "k", "value": {"doubleValue": 1}}]}}},
    ]
    # A name as protobuf has it is unknown here, and so ignored.
    span["parent_span_id"] = "0000000000000001"
    assert turned_away(export(writer, request_of(span) | {"unknown": 1})) == (0, "")
    run = writer.get(f"/v1/runs/{trace}").json
    assert (run["status"], run["subject"]["version"]) == ("failed", "4")


@pytest.mark.parametrize(
    "part",
    [
        {"traceId": "xyz"},
        {"traceId": "abc"},
        {"traceId": 7},
        {"kind": "SPAN_KIND_SERVER"},
        {"startTimeUnixNano": "soon"},
        {"startTimeUnixNano": -1},
        {"startTimeUnixNano": 2**64},
        {"name": 5},
        {"attributes": [None]},
        {"attributes": {"a": 1}},
        {"attributes": [{"key": "a", "value": {"intValue": 2**63}}]},
        {"status": {"code": "STATUS_CODE_ERROR"}},
        {"events": 1},
        {"flags": 1e400},
    ],
)
def test_what_is_no_otlp_is_bad_input(writer: Client, part: dict[str, Any]) -> None:
    answer = export(writer, request_of(an_agent_span(a_trace()) | part))
    assert status(answer) == (400, "bad-input")
    assert answer.json["details"][0]["@type"] == "type.googleapis.com/google.rpc.BadRequest"
    assert answer.json["details"][0]["fieldViolations"][0]["description"]


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"7", b"{", b'{"resourceSpans": NaN}', b"\xff", b'{"a": "\\ud800"}', b'{"a":1} x']
)
def test_what_is_no_json_object_is_bad_input(writer: Client, body: bytes) -> None:
    assert status(export(writer, body)) == (400, "bad-input")


def test_json_nested_too_deep_is_bad_input(writer: Client) -> None:
    deep = b'{"a":' * 129 + b"1" + b"}" * 129
    assert status(export(writer, deep)) == (400, "bad-input")
    value: dict[str, Any] = {"stringValue": "x"}
    for _ in range(40):
        value = {"arrayValue": {"values": [value]}}
    span = an_agent_span(a_trace())
    span["attributes"].append({"key": "gen_ai.deep", "value": value})
    assert status(export(writer, request_of(span))) == (400, "bad-input")


def test_protobuf_that_is_none_is_bad_input(writer: Client) -> None:
    good = in_protobuf(request_of(an_agent_span(a_trace())))
    for body in (good[:-3], b"\xff" * 20, b"\x0a\x05abc"):
        answer = export(writer, body, PROTOBUF)
        assert status(answer) == (400, "bad-input")
        bad = BadRequest()
        assert Status.FromString(answer.data).details[0].Unpack(bad)
        assert bad.field_violations[0].description


@FORMS
def test_who_calls(writer: Client, anonymous: Client, client_of: ClientOf, form: str) -> None:
    body = request_of(an_agent_span(a_trace()))
    answer = export(anonymous, body, form)
    assert status(answer) == (401, "auth-missing")
    assert answer.headers["WWW-Authenticate"] == "Bearer"
    reader = client_of(grants=[Grant("project", "read", "p")])
    assert status(export(reader, body, form)) == (403, "permission-denied")
    assert status(export(client_of(), body, form)) == (404, "project-not-found")


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({"Content-Type": "text/plain"}, 415),
        ({"Content-Type": "application/protobuf"}, 415),
        ({}, 415),
        ({"Content-Type": JSON, "Content-Encoding": "deflate"}, 415),
        ({"Content-Type": "Application/JSON; charset=utf-8"}, 200),
        ({"Content-Type": JSON, "Content-Encoding": "identity"}, 200),
    ],
)
def test_media_types(writer: Client, headers: dict[str, str], code: int) -> None:
    answer = writer.post(PATH, data=json.dumps(request_of(an_agent_span(a_trace()))).encode(), headers=headers)
    assert answer.status_code == code
    assert answer.content_type == JSON
    if code == 415:
        assert status(answer) == (415, "unsupported-media-type")


@FORMS
def test_other_paths_and_methods_speak_the_same_way(writer: Client, form: str) -> None:
    for path in ("/otlp/v1/metrics", "/otlp/v1/logs", "/otlp/v1/nothing"):
        answer = writer.post(path, data=b"{}", headers={"Content-Type": form})
        assert (status(answer), answer.content_type) == ((404, "route-not-found"), form)
    answer = writer.get(PATH, headers={"Content-Type": form})
    assert (status(answer), answer.headers["Allow"]) == ((405, "method-not-allowed"), "POST")
    assert writer.get("/otlp").json["error"]["code"] == "route-not-found"


@pytest.fixture
def small(settings: Settings, writer: Client) -> Client:
    """The writer at a service that takes 4,000 bytes."""
    limited = Settings(database_url=settings.database_url, max_body_bytes=4_000, rate_limit="")
    return Client(create_app(limited), writer.secret, writer.caller)


@FORMS
def test_the_limit_holds_packed_and_unpacked(small: Client, form: str) -> None:
    span = an_agent_span(a_trace())
    assert turned_away(export(small, request_of(span), form, packed=True)) == (0, "")
    large = request_of(span, filler="x" * 4_000)
    assert status(export(small, large, form)) == (413, "request-too-large")
    assert status(export(small, large, form, packed=True)) == (413, "request-too-large")


def test_bombs_and_broken_gzip(small: Client) -> None:
    def packed(body: bytes) -> tuple[int, str]:
        return status(export(small, body, **{"Content-Encoding": "gzip"}))

    assert packed(gzip.compress(b" " * 3_000_000)) == (413, "request-too-large")
    assert packed(gzip.compress(b"") * 150 + gzip.compress(b" " * 5_000)) == (413, "request-too-large")
    whole = gzip.compress(json.dumps(request_of()).encode())
    for broken in (whole[:-9], b"no gzip", whole[:-8] + b"\0" * 8, whole + b"rest"):
        assert packed(broken) == (400, "bad-input")


def test_too_fast_may_be_tried_again(settings: Settings, writer: Client) -> None:
    limited = Settings(database_url=settings.database_url, rate_limit="1/hour")
    client = Client(create_app(limited), writer.secret, writer.caller)
    assert turned_away(export(client, b"", PROTOBUF)) == (0, "")
    answer = export(client, b"", PROTOBUF)
    assert status(answer) == (429, "rate-limit-exceeded")
    assert int(answer.headers["Retry-After"]) > 0


def test_without_a_database_it_may_be_tried_again(writer: Client) -> None:
    nowhere = Settings(database_url="postgresql://nobody@127.0.0.1:1/none")
    client = Client(create_app(nowhere), writer.secret, writer.caller)
    answer = export(client, b"", PROTOBUF, **{"Idempotency-Key": "k"})
    assert status(answer) == (503, "database-busy")
    assert int(answer.headers["Retry-After"]) > 0


def test_the_resources_attribute_names_the_project_before_the_header(
    engine: Engine, tenant: str, admin: Client
) -> None:
    for project in ("p", "q"):
        a_project(engine, tenant, project)
    by_resource, by_header = a_trace(), a_trace()
    body = request_of(an_agent_span(by_resource))
    body["resourceSpans"] += request_of(an_agent_span(by_header), project=None)["resourceSpans"]
    assert turned_away(export(admin, body, **{"X-Corrigenda-Project": "q"})) == (0, "")
    shown = [admin.get(f"/v1/runs/{trace}").json["projectId"] for trace in (by_resource, by_header)]
    assert shown == ["p", "q"]


def test_several_projects_and_only_some_of_them_mine(writer: Client) -> None:
    mine, other = a_trace(), a_trace()
    body = request_of(an_agent_span(mine))
    body["resourceSpans"] += request_of(an_agent_span(other), a_tool_span(other), project="theirs")["resourceSpans"]
    body["resourceSpans"] += request_of(an_agent_span(a_trace()), project=None)["resourceSpans"]
    rejected, why = turned_away(export(writer, body))
    assert rejected == 3
    assert "project-not-found: There is no project theirs.: 2 spans" in why
    assert "bad-input: Name the project" in why
    assert writer.get(f"/v1/runs/{mine}").status_code == 200
    assert writer.get(f"/v1/runs/{other}").status_code == 404


@pytest.mark.parametrize("project", ["no\0thing", "a/b", "x" * 129, "p\n", "é"])
def test_a_project_that_cant_be_isnt_found(writer: Client, project: str) -> None:
    assert status(export(writer, request_of(an_agent_span(a_trace()), project=project))) == (404, "project-not-found")


def test_without_a_project_it_is_bad_input(writer: Client) -> None:
    assert status(export(writer, request_of(an_agent_span(a_trace()), project=None))) == (400, "bad-input")


@FORMS
def test_spans_without_good_ids_are_turned_away_alone(writer: Client, form: str) -> None:
    trace = a_trace()
    bad = [a_span("0" * 32, "00000000000000c1"), a_span(trace, "0" * 16), a_span(trace, "aa"), a_span("bb", "cc" * 8)]
    rejected, why = turned_away(export(writer, request_of(*bad, an_agent_span(trace)), form))
    assert (rejected, why.startswith("bad-input: ")) == (4, True)
    assert writer.get(f"/v1/runs/{trace}").json["status"] == "completed"


def test_no_idempotency_key(writer: Client) -> None:
    for trace in (a_trace(), a_trace()):
        answer = export(writer, request_of(an_agent_span(trace)), **{"Idempotency-Key": "k"})
        assert turned_away(answer) == (0, "")
        assert "X-Idempotent-Replay" not in answer.headers
        assert writer.get(f"/v1/runs/{trace}").status_code == 200


def test_odd_text_is_taken(writer: Client, flask_app: Flask) -> None:
    trace = a_trace()
    said = {
        "gen_ai.agent.name": "a\0b", "gen_ai.conversation.id": "c\0d", "input.value": "nul \0 and 😀",
        "gen_ai.input.messages": '[{"role":"user","content":"\\u0000 \\ud800"}]',
    }  # fmt: skip
    assert turned_away(export(writer, request_of(an_agent_span(trace, **said), a_tool_span(trace, at=2)))) == (0, "")
    run = writer.get(f"/v1/runs/{trace}")
    assert (run.json["subject"]["id"], run.json["conversationId"]) == ("ab", "cd")
    assert '{"role":"user","content":"\\u0000 \\ud800"}' in run.text

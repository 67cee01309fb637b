"""POST /v1/corrections: what a body may say, and what of it is kept to the letter."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import Engine

from tests.api.corrected import RIGHT, record, refused
from tests.client import Client
from tests.factories import a_run


@pytest.fixture
def run(engine: Engine, tenant: str) -> str:
    return a_run(engine, tenant, output={"answer": "hi", "matches": [{"id": 1}, None]})


@pytest.mark.parametrize(
    ("said", "path"),
    [
        ({}, ""),
        ({"decisions": "maybe"}, "/decisions"),
        ({"decisions": None}, "/decisions"),
        ({"decisions": "wrong"}, "/decisions"),
        ({"answer": "wrong"}, "/answer"),
        ({"answer": "right", "shouldSay": "x"}, "/shouldSay"),
        ({"decisions": "right", "mustNotCall": ["x"]}, "/mustNotCall"),
        ({"decisions": "wrong", "shouldCall": [{}]}, "/shouldCall/0/tool"),
        ({"decisions": "wrong", "shouldCall": [{"tool": ""}]}, "/shouldCall/0/tool"),
        ({"decisions": "wrong", "shouldCall": [{"tool": "x" * 201}]}, "/shouldCall/0/tool"),
        ({"decisions": "wrong", "shouldCall": [{"tool": "x"}] * 51}, "/shouldCall"),
        ({"decisions": "wrong", "shouldCall": {"tool": "x"}}, "/shouldCall"),
        ({"decisions": "wrong", "shouldCall": [{"tool": "x", "args": []}]}, "/shouldCall/0/args"),
        ({"decisions": "wrong", "shouldCall": [{"tool": "x", "args": None}]}, "/shouldCall/0/args"),
        ({"decisions": "wrong", "shouldCall": [{"tool": "x", "args": {str(i): i for i in range(101)}}]},
         "/shouldCall/0/args"),
        ({"decisions": "wrong", "shouldCall": [{"tool": "x"}], "mustNotCall": ["y", "x"]}, "/mustNotCall/1"),
        ({"decisions": "wrong", "mustNotCall": ["x"] * 51}, "/mustNotCall"),
        ({"decisions": "wrong", "mustNotCall": [""]}, "/mustNotCall/0"),
        ({"decisions": "wrong", "mustNotCall": ["x" * 201]}, "/mustNotCall/0"),
        ({"answer": "wrong", "shouldSay": "x" * 4001}, "/shouldSay"),
        ({"answer": "right", "why": "x" * 4001}, "/why"),
        ({"items": [{"key": "k", "verdict": "right"}] * 101}, "/items"),
        ({"items": [{"key": "k", "verdict": "right"}] * 2}, "/items/1/key"),
        ({"items": [{"key": "", "verdict": "right"}]}, "/items/0/key"),
        ({"items": [{"key": "k" * 201, "verdict": "right"}]}, "/items/0/key"),
        ({"items": [{"key": "k"}]}, "/items/0/verdict"),
        ({"items": [{"key": "k", "verdict": "right", "rank": -1}]}, "/items/0/rank"),
        ({"items": [{"key": "k", "verdict": "right", "rank": 1.5}]}, "/items/0/rank"),
        ({"items": [{"key": "k", "verdict": "right", "rank": True}]}, "/items/0/rank"),
        ({"items": [{"key": "k", "verdict": "right", "rank": "1"}]}, "/items/0/rank"),
        ({"items": [{"key": "k", "verdict": "right", "pointer": "matches"}]}, "/items/0/pointer"),
        ({"items": [{"key": "k", "verdict": "right", "pointer": "/a~2"}]}, "/items/0/pointer"),
        ({"items": [{"key": "k", "verdict": "right", "pointer": "/" + "x" * 500}]}, "/items/0/pointer"),
        ({**RIGHT, "participantId": ""}, "/participantId"),
        ({**RIGHT, "correctorGroupId": ""}, "/correctorGroupId"),
        ({**RIGHT, "runId": 7}, "/runId"),
        ({**RIGHT, "runId": ""}, "/runId"),
        ({**RIGHT, "why": "a\x00b"}, "/why"),
        ({**RIGHT, "participantId": "\ud800"}, "/participantId"),
    ],
)  # fmt: skip
def test_a_faulty_body_is_refused_and_the_fault_is_named(
    admin: Client, run: str, said: dict[str, Any], path: str
) -> None:
    answer = admin.post("/v1/corrections", {"runId": run, **said})
    assert (answer.status_code, answer.json["error"]["code"]) == (400, "bad-input")
    assert path in [issue["path"] for issue in answer.json["error"]["details"]["issues"]]
    assert admin.get("/v1/corrections").json["data"] == []


@pytest.mark.parametrize(
    "said",
    [
        {"decisions": "wrong", "shouldCall": [{"tool": "é" * 200}] * 50, "mustNotCall": ["y" * 200] * 50},
        {"answer": "wrong", "shouldSay": "😀" * 4000, "why": "\n" * 4000},
        {"items": [{"key": f"{i}" * 60, "verdict": "right", "rank": i} for i in range(100)]},
        {"decisions": "wrong", "shouldCall": [{"tool": "x", "args": {str(i): i for i in range(100)}}]},
        {**RIGHT, "participantId": "p" * 100_000},
    ],
)
def test_limits_are_inclusive_and_count_code_points(admin: Client, run: str, said: dict[str, Any]) -> None:
    body = record(admin, run, **said)
    assert body == admin.get("/v1/corrections").json["data"][0]
    for name, value in said.items():
        if name == "shouldCall":
            assert [{"args": {}, **call} for call in value] == body[name]
        elif name != "why":
            assert body[name] == value


@pytest.mark.parametrize(
    "name",
    ["madeBy", "id", "tenantId", "projectId", "subject", "status", "sortedTo", "sorted", "expert", "createdAt",
     "updatedAt", "fixedIn", "link", "statusNote", "supersededBy", "unregisteredAt", "__proto__", "", "a.b"],
)  # fmt: skip
def test_what_the_service_decides_can_not_be_said(admin: Client, run: str, name: str) -> None:
    answer = admin.post("/v1/corrections", {"runId": run, **RIGHT, name: {"kind": "user", "id": "eve"}})
    assert (answer.status_code, answer.json["error"]["code"]) == (400, "unknown-field")
    assert answer.json["error"]["details"]["issues"] == [{"path": f"/{name}", "message": "is not a field here"}]


def test_a_nested_unknown_field_is_named_by_its_pointer(admin: Client, run: str) -> None:
    said = {"decisions": "wrong", "shouldCall": [{"tool": "x", "a/b~": 1}]}
    answer = admin.post("/v1/corrections", {"runId": run, **said})
    assert answer.json["error"]["code"] == "unknown-field"
    assert [issue["path"] for issue in answer.json["error"]["details"]["issues"]] == ["/shouldCall/0/a~1b~0"]


def test_what_says_nothing_is_absent(admin: Client, run: str) -> None:
    said = {"answer": "right", "shouldCall": [], "mustNotCall": [], "items": [], "why": " \n", "shouldSay": ""}
    body = record(admin, run, **said)
    assert set(body) & set(said) == {"answer"}


@pytest.mark.parametrize(
    ("sent", "shown"),
    [
        ("{}", "{}"),
        ('{"n": 107505301260286111}', '{"n":107505301260286111}'),
        ('{"n": [18446744073709551617, -123456789012345678901234567890]}',
         '{"n":[18446744073709551617,-123456789012345678901234567890]}'),
        ('{"n": [1.0, 1e3, 1.10, -0.0, 1E-400, 0.1000000000000000055511151231257827]}',
         '{"n":[1.0,1e3,1.10,-0.0,1E-400,0.1000000000000000055511151231257827]}'),
        ('{"a.b": 1, "$ne": {"$where": 2}, "__proto__": {"constructor": 3}, "": 4, "a": null, " ": []}',
         '{"a.b":1,"$ne":{"$where":2},"__proto__":{"constructor":3},"":4,"a":null," ":[]}'),
        ('{"b": 1, "a": "\\u0001\\u00e9\\ud83d\\ude00\\/%s{}"}', '{"b":1,"a":"\\u0001é😀/%s{}"}'),
    ],
)  # fmt: skip
def test_args_keep_every_digit_and_key(admin: Client, run: str, sent: str, shown: str) -> None:
    body = f'{{"runId": "{run}", "decisions": "wrong", "shouldCall": [{{"tool": "t", "args": {sent}}}]}}'
    answer = admin.post("/v1/corrections", data=body.encode())
    assert answer.status_code == 201, answer.text
    expected = f'"shouldCall":[{{"tool":"t","args":{shown}}}]'
    assert expected in answer.text
    assert expected in admin.get("/v1/corrections").text
    assert expected in admin.get(f"/v1/corrections/{answer.json['id']}").text


@pytest.mark.parametrize(
    "args",
    ['{"n": 1e400}', '{"n": [-1e309]}', '{"n": 1e99999999999999999999}', '{"n": NaN}', '{"n": Infinity}',
     '{"a": "\\u0000"}', '{"\\u0000": 1}', '{"a": [{"b": "\\ud800"}]}', '{"x": {"\\udc00": 1}}', '{"n": 01}',
     '{"n": 1' + "0" * 5000 + "}", '{"n": 1' + "0" * 400 + "}"],
)  # fmt: skip
def test_args_that_can_not_be_kept_are_refused(admin: Client, run: str, args: str) -> None:
    body = f'{{"runId": "{run}", "decisions": "wrong", "shouldCall": [{{"tool": "t", "args": {args}}}]}}'
    answer = admin.post("/v1/corrections", data=body.encode())
    assert (answer.status_code, answer.json["error"]["code"]) == (400, "bad-input")


def test_args_are_measured_in_canonical_json(admin: Client, run: str) -> None:
    def sent(text: str) -> int:
        args = f'{{"a" :  {text}}}'
        body = f'{{"runId": "{run}", "decisions": "wrong", "shouldCall": [{{"tool": "t", "args": {args}}}]}}'
        return admin.post("/v1/corrections", data=body.encode()).status_code

    room = 4000 - len('{"a":""}')
    assert sent('"' + "\\u00e9" * room + '"') == 201
    assert sent('"' + "😀" * room + '"') == 201
    assert sent('"' + "\\/" * room + '"') == 201
    assert sent('"' + "x" * (room + 1) + '"') == 400
    assert sent('"' + "\\n" * (room // 2) + '"') == 201
    assert sent('"' + "\\n" * (room // 2 + 1) + '"') == 400
    assert sent('"' + "\\u0001" * (room // 6 + 1) + '"') == 400


@pytest.mark.parametrize(("depth", "status"), [(128, 201), (129, 400)])
def test_a_body_may_nest_so_deep(admin: Client, run: str, depth: int, status: int) -> None:
    # The body, shouldCall, its entry and args are four levels.
    args = '{"a":' + "[" * (depth - 4) + "]" * (depth - 4) + "}"
    body = f'{{"runId": "{run}", "decisions": "wrong", "shouldCall": [{{"tool": "t", "args": {args}}}]}}'
    answer = admin.post("/v1/corrections", data=body.encode())
    assert answer.status_code == status
    if status == 400:
        assert answer.json["error"]["details"] == {"maxDepth": 128}


@pytest.mark.parametrize("rank", ["0", "7", "1.0", "1e2", "123456789012345678901234567890"])
def test_a_rank_is_any_whole_number(admin: Client, run: str, rank: str) -> None:
    body = f'{{"runId": "{run}", "items": [{{"key": "k", "verdict": "right", "rank": {rank}}}]}}'
    answer = admin.post("/v1/corrections", data=body.encode())
    assert answer.status_code == 201, answer.text
    assert answer.json["items"] == [
        {"key": "k", "verdict": "right", "rank": int(float(rank)) if "." in rank or "e" in rank else int(rank)}
    ]


@pytest.mark.parametrize("pointer", ["", "/matches", "/matches/0/id", "/matches/1"])
def test_a_pointer_to_something_is_kept(admin: Client, run: str, pointer: str) -> None:
    item = {"key": "k", "pointer": pointer, "verdict": "right"}
    assert record(admin, run, items=[item])["items"] == [item]


def test_pointers_to_nothing_are_all_named(admin: Client, run: str) -> None:
    pointers = ["/matches/0", "/matches/2", "/matches/-", "", "/matches/00", "/answer/0"]
    items = [{"key": str(i), "pointer": pointer, "verdict": "right"} for i, pointer in enumerate(pointers)]
    answer = admin.post("/v1/corrections", {"runId": run, "items": [*items, {"key": "x", "verdict": "right"}]})
    assert (answer.status_code, answer.json["error"]["code"]) == (400, "item-not-found")
    lost = [{"index": index, "pointer": pointers[index]} for index in (1, 2, 4, 5)]
    assert answer.json["error"]["details"] == {"items": lost}


def test_an_output_that_no_parser_likes_can_be_pointed_into(admin: Client, engine: Engine, tenant: str) -> None:
    output = '{"a":[1e999,"\\ud800","\\u0000",1' + "0" * 5000 + '],"a":[7]}'
    run = a_run(engine, tenant, output=output)
    assert refused(admin, run, items=[{"key": "k", "pointer": "/a/1", "verdict": "right"}]) == (400, "item-not-found")
    body = record(admin, run, items=[{"key": "k", "pointer": "/a/0", "verdict": "right"}])
    assert f'"output":{output},' in admin.get(f"/v1/corrections/{body['id']}").text

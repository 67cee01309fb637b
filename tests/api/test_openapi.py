from __future__ import annotations

import json
import re
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from openapi_spec_validator import validate
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT202012

from app.api.bodies import load_body
from app.api.schemas.base import Shape
from app.api.schemas.examples import EXAMPLES
from app.wsgi import routes
from tests.client import Client


@pytest.fixture
def document(anonymous: Client) -> dict[str, Any]:
    answer = anonymous.get("/v1/openapi.json")
    assert answer.status_code == 200
    found: dict[str, Any] = answer.json
    return found


def operations(document: dict[str, Any]) -> dict[str, Any]:
    return {
        f"{method.upper()} {path}": operation
        for path, item in document["paths"].items()
        for method, operation in item.items()
    }


def test_the_document_is_valid_openapi(document: dict[str, Any]) -> None:
    assert document["openapi"].startswith("3.1")
    validate(document)


def test_it_has_every_operation_once(document: dict[str, Any]) -> None:
    found = operations(document)
    assert set(found) == {f"{route.method} {route.path}" for route in routes() if not route.hidden}
    ids = [operation["operationId"] for operation in found.values()]
    assert sorted(ids) == sorted(set(ids)), "two views have the same name: rename one"


def test_each_operation_is_described_whole(document: dict[str, Any]) -> None:
    for name, operation in operations(document).items():
        assert operation["summary"], name
        assert any(status[0] in "23" for status in operation["responses"]), name
        assert {"400", "413", "500", "503"} <= set(operation["responses"]), name
        if operation.get("security") != []:
            assert {"401", "429"} <= set(operation["responses"]), name
        in_path = {p["name"] for p in operation["parameters"] if p["in"] == "path"}
        assert in_path == set(re.findall(r"{(\w+)}", name)), name


def test_limits_of_the_reference_show(document: dict[str, Any]) -> None:
    wanted = document["components"]["schemas"]["CorrectionWanted"]["properties"]
    assert wanted["shouldSay"] == {"type": "string", "maxLength": 4000}
    assert (wanted["items"]["maxItems"], wanted["shouldCall"]["maxItems"]) == (100, 50)
    parameters = operations(document)["GET /v1/corrections"]["parameters"]
    limit = next(p for p in parameters if p["name"] == "limit")
    assert limit["schema"] == {"type": "integer", "minimum": 1, "maximum": 100, "default": 25}
    record = operations(document)["POST /v1/corrections"]
    codes = record["responses"]["409"]["content"]["application/json"]["schema"]["allOf"][1]
    assert "run-not-finished" in codes["properties"]["error"]["properties"]["code"]["enum"]
    assert "Idempotency-Key" in [p["name"] for p in record["parameters"]]


def test_the_page_and_all_that_it_loads_come_from_here(anonymous: Client) -> None:
    page = anonymous.get("/docs")
    assert page.content_type.startswith("text/html")
    parts = re.findall(r'(?:src|href)="([^"]+)"', page.text)
    assert len(parts) == 5
    for part in parts:
        assert part.startswith("/"), part
        assert anonymous.get(part).status_code == 200, part
    assert anonymous.get("/docs/secret.txt").json["error"]["code"] == "route-not-found"


def test_arrays_say_what_is_in_them(document: dict[str, Any]) -> None:
    running = operations(document)["GET /v1/projects/{projectId}/running"]["responses"]["200"]
    assert running["content"]["application/json"]["schema"] == {
        "type": "array",
        "items": {"$ref": "#/components/schemas/RunningList"},
    }
    results = document["components"]["schemas"]["TestRunWanted"]["properties"]["results"]
    items = {"$ref": "#/components/schemas/ResultWanted"}
    assert results == {"type": "array", "minItems": 1, "maxItems": 10_000, "items": items}


@pytest.mark.parametrize("shape", EXAMPLES, ids=lambda shape: shape.__name__)
def test_an_example_is_what_its_shape_takes(shape: type[Shape], document: dict[str, Any]) -> None:
    body = json.dumps(EXAMPLES[shape]).encode()
    assert load_body(shape(), body)
    registry = Registry().with_resource("urn:api", Resource(document, DRAFT202012))
    schema = {"$ref": f"urn:api#/components/schemas/{shape.__name__.removesuffix('Shape')}"}
    Draft202012Validator(schema, registry=registry).validate(EXAMPLES[shape])


def test_every_body_has_an_example() -> None:
    without = {type(route.body).__name__ for route in routes() if route.body} - {shape.__name__ for shape in EXAMPLES}
    assert not without, "add one to app/api/schemas/examples.py"

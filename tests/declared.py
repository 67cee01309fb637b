"""Holds what tests get against the OpenAPI document: each answer must be one that its operation declares."""

from __future__ import annotations

from functools import cache
from typing import Any

from jsonschema import Draft202012Validator
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT202012

from app.api.openapi import document
from app.api.routes import JSON
from app.wsgi import routes


@cache
def _document() -> dict[str, Any]:
    return document(route for route in routes() if not route.hidden)


@cache
def _registry() -> Registry[Any]:
    return Registry().with_resource("urn:api", Resource(_document(), DRAFT202012))


@cache
def _validator(method: str, path: str, status: str) -> Draft202012Validator:
    where = "/".join(part.replace("~", "~0").replace("/", "~1") for part in (path, method, "responses", status))
    schema = {"$ref": f"urn:api#/paths/{where}/content/{JSON.replace('/', '~1')}/schema"}
    return Draft202012Validator(schema, registry=_registry(), format_checker=Draft202012Validator.FORMAT_CHECKER)


def check(method: str, path: str, status: int, content_type: str, body: Any) -> None:
    """Fail unless the operation ``method path`` (a pattern) declares this status and, in JSON, this body."""
    operation = _document()["paths"].get(path, {}).get(method.lower())
    if operation is None:
        return
    declared = operation["responses"].get(str(status))
    assert declared is not None, f"{method} {path} answers {status}, which its route doesn't declare: {body}"
    if content_type != JSON or JSON not in declared.get("content", {}):
        return
    problem = next(_validator(method.lower(), path, str(status)).iter_errors(body), None)
    assert problem is None, (
        f"{method} {path} answers {status} with what its route doesn't declare, at {problem.json_path}: "
        f"{problem.message}"
    )

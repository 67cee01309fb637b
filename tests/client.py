"""A small client over Flask's, with a token. Every answer must be one that its operation declares."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import unquote, urlsplit

from flask import Flask
from werkzeug.exceptions import HTTPException
from werkzeug.test import TestResponse

from app.api.routes import JSON
from app.domain.model import Caller
from tests.declared import check


def _whole(digits: str) -> int:
    """Payloads may hold more digits than Python turns into an ``int``; how many doesn't matter here."""
    return int(digits[:100])


class Client:
    """Sends JSON as ``caller``. ``data`` sends bytes as they are."""

    def __init__(self, flask: Flask, secret: str | None, caller: Caller | None) -> None:
        self.flask = flask
        self._client = flask.test_client()
        self.secret = secret
        self.caller = caller

    def send(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        data: bytes | None = None,
        headers: dict[str, str] | None = None,
    ) -> TestResponse:
        sent = dict(headers or {})
        if self.secret is not None:
            sent.setdefault("Authorization", f"Bearer {self.secret}")
        if body is not None:
            data = json.dumps(body).encode()
            sent.setdefault("Content-Type", "application/json")
        answer = self._client.open(path, method=method, data=data, headers=sent)
        self._hold_to_what_is_declared(method, path, answer)
        return answer

    def _hold_to_what_is_declared(self, method: str, path: str, answer: TestResponse) -> None:
        if answer.status_code == 308:
            return
        try:
            endpoint, _ = self.flask.url_map.bind("localhost").match(unquote(urlsplit(path).path), method)
        except HTTPException:
            return
        body = None
        if answer.content_type == JSON and method != "HEAD" and answer.status_code != 304:
            body = json.loads(answer.data, parse_int=_whole)
        check(method, str(endpoint).partition(" ")[2], answer.status_code, answer.content_type or "", body)

    def get(self, path: str, **more: Any) -> TestResponse:
        return self.send("GET", path, **more)

    def post(self, path: str, body: Any = None, **more: Any) -> TestResponse:
        return self.send("POST", path, body, **more)

    def put(self, path: str, body: Any = None, **more: Any) -> TestResponse:
        return self.send("PUT", path, body, **more)

    def patch(self, path: str, body: Any = None, **more: Any) -> TestResponse:
        return self.send("PATCH", path, body, **more)

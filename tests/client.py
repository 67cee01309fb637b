"""A small client over Flask's, with a token."""

from __future__ import annotations

import json
from typing import Any

from flask import Flask
from werkzeug.test import TestResponse

from app.domain.model import Caller


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
        return self._client.open(path, method=method, data=data, headers=sent)

    def get(self, path: str, **more: Any) -> TestResponse:
        return self.send("GET", path, **more)

    def post(self, path: str, body: Any = None, **more: Any) -> TestResponse:
        return self.send("POST", path, body, **more)

    def put(self, path: str, body: Any = None, **more: Any) -> TestResponse:
        return self.send("PUT", path, body, **more)

    def patch(self, path: str, body: Any = None, **more: Any) -> TestResponse:
        return self.send("PATCH", path, body, **more)

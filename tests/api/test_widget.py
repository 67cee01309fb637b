"""The widget's script as it is served. What it does is tested in a browser: ``tests/acceptance/test_widget.py``."""

from __future__ import annotations

import dataclasses
import re

import pytest

from app.config import Settings
from app.wsgi import create_app
from tests.client import Client

SCRIPT = "/static/corrigenda.js"
ORIGIN = "https://shop.example"


def test_it_is_small_and_any_page_may_load_it(anonymous: Client) -> None:
    served = anonymous.get(SCRIPT)
    assert served.status_code == 200
    assert served.content_type == "text/javascript; charset=utf-8"
    assert len(served.data) < 10_000
    assert served.headers["Cross-Origin-Resource-Policy"] == "cross-origin"


def test_caches_keep_it_and_ask_again(anonymous: Client) -> None:
    served = anonymous.get(SCRIPT)
    assert re.search(r"max-age=[1-9]", served.headers["Cache-Control"])
    again = anonymous.get(SCRIPT, headers={"If-None-Match": served.headers["ETag"]})
    assert (again.status_code, again.data) == (304, b"")
    assert again.headers["ETag"] == served.headers["ETag"]
    assert anonymous.get(SCRIPT, headers={"If-None-Match": '"old"'}).status_code == 200


def test_a_configured_origin_may_load_it_by_cors_too(settings: Settings) -> None:
    client = Client(create_app(dataclasses.replace(settings, cors_origins=(ORIGIN,))), None, None)
    for headers, allowed in ((ORIGIN, ORIGIN), ("https://evil.example", None)):
        served = client.get(SCRIPT, headers={"Origin": headers})
        assert served.status_code == 200
        assert served.headers.get("Access-Control-Allow-Origin") == allowed
        assert served.headers["Vary"] == "Origin"


@pytest.mark.parametrize("banned", ["innerHTML", "eval(", "localStorage", "document.cookie", ".style.", "import("])
def test_it_does_nothing_that_a_strict_page_forbids(anonymous: Client, banned: str) -> None:
    assert banned not in anonymous.get(SCRIPT).text

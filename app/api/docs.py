"""``/v1/openapi.json``, and ``/docs`` to read and try it in a browser. Every asset comes with the package."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib.resources import files

import orjson

from app.api.openapi import document
from app.api.routes import Answer, Call, Route, Routes
from app.domain.errors import RouteNotFound

HTML = "text/html; charset=utf-8"
_ASSETS = {
    "swagger-ui.css": "text/css; charset=utf-8",
    "swagger-ui-bundle.js": "text/javascript; charset=utf-8",
    "favicon-32x32.png": "image/png",
    "start.js": "text/javascript; charset=utf-8",
}
_SAFE = {
    "Content-Security-Policy": "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}


def documentation(declared: Sequence[Route]) -> list[Route]:
    """The routes that document ``declared`` and themselves."""
    routes = Routes("operation")

    @cache
    def text() -> bytes:
        return orjson.dumps(document(route for route in [*declared, *routes.routes] if not route.hidden))

    @routes.add("GET", "/v1/openapi.json", answers={200: None}, public=True)
    def open_api(call: Call) -> Answer:
        """This service as an OpenAPI 3.1 document."""
        return Answer(200, text())

    @routes.add("GET", "/docs", answers={200: None}, public=True, media_types=(HTML,))
    def docs_page(call: Call) -> Answer:
        """Every operation, to read and to try in a browser."""
        return Answer(200, _asset("index.html"), content_type=HTML, headers=_SAFE)

    @routes.add("GET", "/docs/{asset}", answers={200: None}, public=True, hidden=True)
    def docs_asset(call: Call) -> Answer:
        """What the page is made of."""
        name = call.path["asset"]
        if name not in _ASSETS:
            raise RouteNotFound("The page has no such part.")
        headers = _SAFE | {"Cache-Control": "public, max-age=3600"}
        return Answer(200, _asset(name), content_type=_ASSETS[name], headers=headers)

    return routes.routes


@cache
def _asset(name: str) -> bytes:
    own = name in ("index.html", "start.js")
    folder = files("app.api") / "assets" if own else files("flask_swagger_ui") / "dist"
    return (folder / name).read_bytes()

"""``/static/corrigenda.js``: puts right, wrong and "what should it have said" under an answer in any web page."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.resources import files

from app.api.preconditions import none_match
from app.api.routes import Answer, Call, Routes

JAVASCRIPT = "text/javascript; charset=utf-8"
_HEADERS = {
    "Cache-Control": "public, max-age=3600, stale-while-revalidate=86400",
    "Cross-Origin-Resource-Policy": "cross-origin",
    "X-Content-Type-Options": "nosniff",
}

routes = Routes("participants")


@routes.add(
    "GET",
    "/static/corrigenda.js",
    answers={200: None, 304: None},
    public=True,
    media_types=(JAVASCRIPT,),
    headers={"If-None-Match": "an ETag of the script: the answer is 304 while it is the same"},
)
def widget_script(call: Call) -> Answer:
    """The script that puts right, wrong and "what should it have said" under an answer in a web page.

    Any page may load it. What it may then ask of the service is the page's origin's and its participant token's matter.
    """
    script, etag = _script()
    headers = _HEADERS | {"ETag": etag}
    if not none_match(call.headers, etag):
        return Answer(304, headers=headers)
    return Answer(200, script, content_type=JAVASCRIPT, headers=headers)


@cache
def _script() -> tuple[bytes, str]:
    script = (files("app.api") / "assets" / "corrigenda.js").read_bytes()
    return script, f'"{hashlib.sha256(script).hexdigest()[:32]}"'

"""A page that asks its visitors whether an answer was right.

The server holds a token of Corrigenda; the page gets one that is good for its visitor and the one run that it shows.

    CORRIGENDA_TOKEN=… python examples/widget/server.py --corrigenda http://127.0.0.1:8400 --port 8420

Corrigenda must let the page's origin in: CORRIGENDA_CORS_ORIGINS=http://127.0.0.1:8420.
"""

from __future__ import annotations

import argparse
import html
import os
import secrets
import sys
from http.cookies import SimpleCookie
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from string import Template

import httpx

HERE = Path(__file__).parent
RUN = {
    "projectId": "widget-example",
    "subject": {"kind": "agent", "id": "shop-assistant", "version": "1.0.0"},
    "status": "completed",
    "input": {"message": "Please move my delivery to Friday."},
    "output": {"answer": "Done. I have cancelled your order."},
}


class Shop:
    """What the page's server knows: where Corrigenda is, its own token for it, and the run that it shows."""

    def __init__(self, corrigenda: str, token: str) -> None:
        self.corrigenda = corrigenda.rstrip("/")
        self.run_id = f"widget-{secrets.token_hex(6)}"
        self._api = httpx.Client(base_url=self.corrigenda, headers={"Authorization": f"Bearer {token}"})

    def run_the_agent(self) -> None:
        """Stands for the shop's agent, whose runtime tells Corrigenda of each run."""
        self._api.put("/v1/projects/widget-example", json={"name": "Widget example"}).raise_for_status()
        self._api.put(f"/v1/runs/{self.run_id}", json=RUN).raise_for_status()

    def page(self, visitor: str) -> bytes:
        """The page for one visitor, with a token that can do nothing but correct this run as this visitor."""
        wanted = {"runId": self.run_id, "participantId": visitor, "ttlSeconds": 3600}
        token = self._api.post("/v1/participant-tokens", json=wanted).raise_for_status().json()["token"]
        values = {"corrigenda": self.corrigenda, "run": self.run_id, "token": token}
        page = Template((HERE / "index.html").read_text("utf-8"))
        return page.substitute({name: html.escape(value) for name, value in values.items()}).encode()


def handler_of(shop: Shop) -> type[BaseHTTPRequestHandler]:
    """Serves the shop's page under a policy as strict as a bank's: nothing inline, nothing from elsewhere."""
    policy = (
        f"default-src 'none'; script-src {shop.corrigenda}; connect-src {shop.corrigenda}; style-src 'self'; "
        "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
        "require-trusted-types-for 'script'"
    )

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path == "/page.css":
                self._answer((HERE / "page.css").read_bytes(), "text/css; charset=utf-8")
            elif self.path == "/":
                visitor = self._visitor()
                kept = f"visitor={visitor}; Path=/; HttpOnly; SameSite=Lax"
                self._answer(shop.page(visitor), "text/html; charset=utf-8", {"Set-Cookie": kept})
            else:
                self.send_error(404)

        def _visitor(self) -> str:
            """Whoever is logged in, in a real shop. The page never learns it, and can't claim to be another."""
            kept = SimpleCookie(self.headers.get("Cookie", "")).get("visitor")
            return kept.value if kept else secrets.token_urlsafe(12)

        def _answer(self, body: bytes, kind: str, headers: dict[str, str] | None = None) -> None:
            self.send_response(200)
            always = {"Content-Type": kind, "Content-Length": str(len(body)), "Cache-Control": "no-store"}
            for name, value in {**always, "Content-Security-Policy": policy, **(headers or {})}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    return Handler


def main() -> None:
    options = argparse.ArgumentParser(description="A page that asks whether an answer was right.")
    options.add_argument("--corrigenda", default="http://127.0.0.1:8400", help="where Corrigenda is")
    options.add_argument("--port", type=int, default=8420, help="where the page shall be")
    chosen = options.parse_args()
    token = os.environ.get("CORRIGENDA_TOKEN")
    if not token:
        options.error("set CORRIGENDA_TOKEN to a token that may write to the project widget-example")
    try:
        shop = Shop(chosen.corrigenda, token)
        shop.run_the_agent()
        server = ThreadingHTTPServer(("127.0.0.1", chosen.port), handler_of(shop))
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        sys.exit(f"server: {chosen.corrigenda} doesn't do what is asked: {str(error).splitlines()[0]}")
    except (OSError, OverflowError) as error:
        sys.exit(f"server: can't listen on 127.0.0.1:{chosen.port}: {getattr(error, 'strerror', None) or error}")
    print(f"http://127.0.0.1:{chosen.port} (run {shop.run_id}; Ctrl-C ends it)", flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        server.server_close()


if __name__ == "__main__":
    main()

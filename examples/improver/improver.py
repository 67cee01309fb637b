"""A reference improver: makes of each brief a Markdown page that says, tool by tool, what an agent should have done.

As an endpoint, with nothing but Python:

    python examples/improver/improver.py --port 8700 --out briefs

It prints the two settings that a Corrigenda worker needs to send briefs there. As an entry point in the worker itself:

    pip install ./examples/improver        # then start the worker; pages go to $IMPROVER_OUT, else ./briefs

A real improver starts a job here that changes prompts, tools or settings, and answers with the job's id.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import hmac
import json
import os
import re
import secrets
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

TOLERANCE_SECONDS = 300


def improve(brief: Mapping[str, Any]) -> dict[str, str]:
    """Take a brief: the entry point. Gives the Improve run that the corrections are linked to."""
    return write_page(brief, Path(os.environ.get("IMPROVER_OUT", "briefs")))


def write_page(brief: Mapping[str, Any], out: Path) -> dict[str, str]:
    """Write the page of ``brief`` into the folder ``out``. The same brief again is the same page and the same run."""
    out.mkdir(parents=True, exist_ok=True)
    name = re.sub(r"[^A-Za-z0-9-]", "", brief["id"])
    page = out / f"{name}.md"
    unfinished = page.with_suffix(f".{secrets.token_hex(4)}")
    unfinished.write_text(markdown(brief), "utf-8")
    unfinished.replace(page)
    return {"improveRunId": f"markdown-{name}"}


def markdown(brief: Mapping[str, Any]) -> str:
    """The page of ``brief``: a section for each tool, those with the most corrections first, then answers and items."""
    groups: dict[str, list[str]] = defaultdict(list)
    for entry in brief["corrections"]:
        for title, text in findings(entry):
            groups[title].append(text)
    subject, count = brief["subject"], len(brief["corrections"])
    lines = [f"# {subject['kind']} {subject['id']} in {brief['projectId']}: {count} corrections", "", brief["id"], ""]
    for title, texts in sorted(groups.items(), key=lambda group: -len(group[1])):
        lines += [f"## {title} ({len(texts)})", "", *texts, ""]
    return "\n".join(lines)


def findings(entry: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """What one correction says, as (title of a section, line in it)."""
    correction = entry["correction"]
    tail = f" Run `{correction['runId']}`, weight {entry['weight']}."
    if correction.get("why"):
        tail += f" Why: {one_line(correction['why'])}"
    if any(row["kind"] in ("linked", "reopened") for row in entry["earlierAttempts"]):
        tail += " It was worked on before."
    for call in correction.get("shouldCall", ()):
        args = json.dumps(call["args"], ensure_ascii=False)
        yield f"Tool `{call['tool']}`", f"- Should be called with `{args}`.{tail}"
    for tool in correction.get("mustNotCall", ()):
        yield f"Tool `{tool}`", f"- Must not be called.{tail}"
    if correction.get("answer") == "wrong":
        right = correction.get("shouldSay")
        yield "The answer", f"- {'Should say: “' + one_line(right) + '”.' if right else 'Is wrong.'}{tail}"
    for item in correction.get("items", ()):
        if item["verdict"] == "wrong":
            yield "Ranked items", f"- `{item['key']}` shouldn't be there.{tail}"


def one_line(text: str) -> str:
    return " ".join(text.split())


def genuine(secret: str, headers: Mapping[str, str], body: bytes, now: float) -> bool:
    """Whether ``secret`` signed the message lately, by the Standard Webhooks specification."""
    sent = headers.get("webhook-timestamp", "")
    if not sent.isascii() or not sent.isdigit() or abs(now - int(sent)) > TOLERANCE_SECONDS:
        return False
    content = f"{headers.get('webhook-id', '')}.{sent}.".encode() + body
    key = base64.b64decode(secret.removeprefix("whsec_"))
    right = "v1," + base64.b64encode(hmac.new(key, content, hashlib.sha256).digest()).decode()
    return any(hmac.compare_digest(right, given) for given in headers.get("webhook-signature", "").split(" "))


def server(port: int, secret: str, out: Path) -> ThreadingHTTPServer:
    """An endpoint on this machine that takes briefs. ``port`` 0 is a free one."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            if not genuine(secret, {name.lower(): value for name, value in self.headers.items()}, body, time.time()):
                return self.answer(401, {"error": "the signature isn't right"})
            answer = write_page(json.loads(body)["data"], out)
            return self.answer(200, answer)

        def log_message(self, format: str, *args: Any) -> None:
            sys.stderr.write(f"{format % args}\n")

        def answer(self, status: int, value: dict[str, str]) -> None:
            body = json.dumps(value).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    return ThreadingHTTPServer(("127.0.0.1", port), Handler)


def main() -> None:
    parser = argparse.ArgumentParser(description="Take briefs from Corrigenda and write a Markdown page of each.")
    parser.add_argument("--port", type=int, default=8700)
    parser.add_argument("--out", type=Path, default=Path("briefs"), help="folder for the pages")
    parser.add_argument("--secret", default=os.environ.get("CORRIGENDA_IMPROVE_SECRET"), help="whsec_…")
    parser.add_argument("--brief", type=Path, help="a saved brief: print its page and end")
    wanted = parser.parse_args()
    try:
        if wanted.brief:
            sys.stdout.write(markdown(json.loads(wanted.brief.read_text("utf-8"))))
        else:
            serve(
                wanted.port, wanted.secret or "whsec_" + base64.b64encode(secrets.token_bytes(32)).decode(), wanted.out
            )
    except KeyboardInterrupt:
        return
    except (OSError, OverflowError, ValueError, LookupError, TypeError) as error:
        sys.exit(f"improver: {why(wanted, error)}")


def serve(port: int, secret: str, out: Path) -> None:
    """Take briefs until Ctrl-C. Says first what a worker needs to send them here."""
    base64.b64decode(secret.removeprefix("whsec_"), validate=True)
    with server(port, secret, out) as endpoint:
        sys.stderr.write(
            f"export CORRIGENDA_IMPROVE_URL=http://127.0.0.1:{endpoint.server_port}/\n"
            f"export CORRIGENDA_IMPROVE_SECRET={secret}\n"
        )
        endpoint.serve_forever()


def why(wanted: argparse.Namespace, error: Exception) -> str:
    """What was wrong with the command line, in one line."""
    if wanted.brief:
        return f"can't read a brief from {wanted.brief}: {getattr(error, 'strerror', None) or type(error).__name__}"
    if isinstance(error, (OSError, OverflowError)):
        return f"can't listen on 127.0.0.1:{wanted.port}: {getattr(error, 'strerror', None) or 'there is no such port'}"
    return "--secret must be whsec_ and Base64"


if __name__ == "__main__":
    main()

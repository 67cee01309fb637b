"""Where the CPU of a recording goes, in Python: ``python -m bench.profile 2>/dev/null``, half a minute.

The service's own WSGI application in this process, on a real database, one request after the other. CPU is the
process's own, so what the database does meanwhile doesn't count. Shares are cProfile's, of functions with all that they
call; the profiler makes calls dear, so believe the order and not the figure.
"""

from __future__ import annotations

import argparse
import cProfile
import io
import json
import pstats
import time
from collections.abc import Callable
from typing import Any

from app import log
from app.config import Settings
from app.wsgi import create_app
from bench.filling import fill
from bench.record import BODY, FORMS
from bench.stage import Database, new_database, postgres


def main() -> None:
    """Fill, record, print what each step costs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=3_000)
    parser.add_argument("--lines", type=int, default=45, help="functions to print")
    parser.add_argument("--own", action="store_true", help="order by a function's own time, without what it calls")
    parser.add_argument("--smoke", action="store_true", help="seconds; the numbers say nothing")
    options = parser.parse_args()
    if options.smoke:
        options.requests, options.lines = 50, 5
    with postgres() as server:
        database = new_database(server, "profile")
        fill(database, 1_000, 1_000, fresh=2 * len(FORMS) * options.requests + 400)
        record = recorder(database)
        fresh = 1_000
        for name, headers in FORMS.items():
            for number in range(fresh, fresh + 100):
                record(number, headers)
            fresh += 100
            before = time.process_time()
            for number in range(fresh, fresh + options.requests):
                record(number, headers)
            spent = time.process_time() - before
            print(f"{name}: {spent / options.requests * 1000:.3f} ms of CPU a request", flush=True)
            fresh += options.requests
            profile(record, range(fresh, fresh + options.requests), headers, options)
            fresh += options.requests


def recorder(database: Database) -> Callable[[int, dict[str, str]], None]:
    """Records on the run of a number, through the WSGI application."""
    log.configure("INFO")
    flask = create_app(Settings(database_url=database.url, secret_key="bench"))
    template = json.dumps(BODY)

    def record(number: int, headers: dict[str, str]) -> None:
        body = template.replace("@N", str(number)).encode()
        environ = _environ(database, body, {name: value.replace("@N", str(number)) for name, value in headers.items()})
        statuses: list[str] = []
        answer = flask.wsgi_app(environ, lambda status, _headers, _exc=None: statuses.append(status))
        text = b"".join(answer)
        assert statuses == ["201 CREATED"], (statuses, text)

    return record


def _environ(database: Database, body: bytes, headers: dict[str, str]) -> dict[str, Any]:
    """What a WSGI server makes of the request."""
    return {
        "REQUEST_METHOD": "POST",
        "SCRIPT_NAME": "",
        "PATH_INFO": "/v1/corrections",
        "QUERY_STRING": "",
        "SERVER_NAME": "127.0.0.1",
        "SERVER_PORT": "8000",
        "SERVER_PROTOCOL": "HTTP/1.1",
        "CONTENT_TYPE": "application/json",
        "CONTENT_LENGTH": str(len(body)),
        "HTTP_HOST": "bench",
        "HTTP_AUTHORIZATION": f"Bearer {database.token}",
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": "http",
        "wsgi.input": io.BytesIO(body),
        "wsgi.errors": io.StringIO(),
        "wsgi.multithread": True,
        "wsgi.multiprocess": True,
        "wsgi.run_once": False,
        **{f"HTTP_{name.upper().replace('-', '_')}": value for name, value in headers.items()},
    }


def profile(
    record: Callable[[int, dict[str, str]], None], numbers: range, headers: dict[str, str], options: argparse.Namespace
) -> None:
    """Record on ``numbers`` under the profiler and print the dearest functions."""
    profiler = cProfile.Profile(time.process_time)
    profiler.enable()
    for number in numbers:
        record(number, headers)
    profiler.disable()
    pstats.Stats(profiler).sort_stats("tottime" if options.own else "cumulative").print_stats(options.lines)


if __name__ == "__main__":
    main()

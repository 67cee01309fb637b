"""What is wrong with how an example was started is one line, and no traceback."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


def said(program: str, *options: str, cwd: Path, **env: str) -> tuple[int, str]:
    """The exit code of an example and all that it said on standard error."""
    command = [sys.executable, str(EXAMPLES / program), *options]
    done = subprocess.run(
        command, cwd=cwd, env={**os.environ, **env}, capture_output=True, text=True, timeout=20, check=False
    )
    return done.returncode, done.stderr


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (["--port", "{taken}"], "improver: can't listen on 127.0.0.1:{taken}: Address already in use"),
        (["--port", "65536"], "improver: can't listen on 127.0.0.1:65536: there is no such port"),
        (["--secret", "x"], "improver: --secret must be whsec_ and Base64"),
        (["--brief", "none.json"], "improver: can't read a brief from none.json: No such file or directory"),
        (["--brief", "list.json"], "improver: can't read a brief from list.json: TypeError"),
    ],
)
def test_improver(tmp_path: Path, options: list[str], line: str) -> None:
    (tmp_path / "list.json").write_text("[1]")
    with socket.create_server(("127.0.0.1", 0)) as server:
        taken = str(server.getsockname()[1])
        given = [option.format(taken=taken) for option in options]
        assert said("improver/improver.py", *given, cwd=tmp_path) == (1, line.format(taken=taken) + "\n")


@pytest.mark.parametrize("url", ["http://127.0.0.1:1", "http://x:y"])
def test_widget(tmp_path: Path, url: str) -> None:
    code, line = said("widget/server.py", "--corrigenda", url, "--port", "0", cwd=tmp_path, CORRIGENDA_TOKEN="x")
    assert (code, line.count("\n")) == (1, 1)
    assert line.startswith(f"server: {url} doesn't do what is asked: ")

"""The worked example of docs/ci-gate.md, run whole against a real service."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.operation.machine import Machine

EXAMPLE = Path(__file__).parents[2] / "examples" / "ci-gate" / "walkthrough.sh"


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("curl") is None, reason="the example talks through curl")
def test_a_correction_is_fixed_reopened_and_fixed_again() -> None:
    with tempfile.TemporaryDirectory(prefix="corrigenda-tests-") as folder, Machine(Path(folder) / "data") as machine:
        machine.wait_ready()
        env = {
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "PYTHON": sys.executable,
            "CORRIGENDA_URL": f"http://127.0.0.1:{machine.port}",
            "CORRIGENDA_TOKEN": (machine.data / "admin-token").read_text("utf-8").strip(),
        }
        done = subprocess.run(["sh", str(EXAMPLE)], env=env, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    said = [line.strip() for line in done.stdout.splitlines()]
    assert [line for line in said if line.startswith("The correction is")] == [
        "The correction is with-owner.",
        "The correction is fixed.",
        "The correction is with-owner.",
        "The correction is fixed.",
    ]
    assert "The gate says 3." in said
    assert "Wrong again: correction" in done.stderr
    assert '{"version": "1.2.0", "how": "latest"' in done.stdout

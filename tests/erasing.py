"""Erasures as a worker does them, and the dump that holds nothing of them."""

from __future__ import annotations

import subprocess
from typing import Any

from sqlalchemy import Engine

from app.embedded.postgres import installed
from app.services import erase
from app.transaction import transaction
from tests.client import Client


def dump(url: str) -> str:
    """The whole database as ``pg_dump`` writes it."""
    program = installed() / "bin" / "pg_dump"
    done = subprocess.run([program, "--inserts", "--no-owner", url], capture_output=True, check=True)
    return done.stdout.decode()


def erased(engine: Engine, client: Client, **target: str) -> dict[str, Any]:
    """Erase ``runId=…``, ``conversationId=…`` or ``participantId=…``; the erasure when it is done."""
    asked = client.post("/v1/erasures", target)
    assert asked.status_code == 202, asked.text
    assert asked.json["status"] == "running"
    assert client.caller is not None
    work(engine, client.caller.tenant_id, asked.json["id"])
    shown = client.get(f"/v1/erasures/{asked.json['id']}")
    assert shown.json["status"] == "done"
    return dict(shown.json)


def work(engine: Engine, tenant: str, erasure_id: str, steps: int | None = None) -> None:
    """Do the erasure, or its next ``steps``."""
    while steps is None or steps > 0:
        with transaction(engine) as tx:
            if not erase.step(tx, tenant, erasure_id):
                return
        steps = None if steps is None else steps - 1

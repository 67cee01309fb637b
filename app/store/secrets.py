"""Secrets that all processes of the service share and nobody had to set."""

from __future__ import annotations

import secrets as random

from app.store.engine import Db


def ensure(db: Db, name: str) -> str:
    """The secret of that name, made on first use."""
    db.run(
        "INSERT INTO service_secrets (name, value) VALUES (%s, %s) ON CONFLICT DO NOTHING",
        (name, random.token_urlsafe(32)),
    )
    return str(db.value("SELECT value FROM service_secrets WHERE name = %s", (name,)))

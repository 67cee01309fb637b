"""The spans of which runs are made."""

from __future__ import annotations

from app.store.migrations.sql import run_beside

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    run_beside(__file__)

"""Erasures and retention."""

from app.store.migrations.sql import run_beside

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    run_beside(__file__)

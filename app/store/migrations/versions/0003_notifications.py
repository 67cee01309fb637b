"""Endpoints that people and programs are told through, and what was delivered to each."""

from app.store.migrations.sql import run_beside

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    run_beside(__file__)

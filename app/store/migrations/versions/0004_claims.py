"""Leases of work items: whose turn it is, and how leases ended."""

from app.store.migrations.sql import run_beside

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    run_beside(__file__)

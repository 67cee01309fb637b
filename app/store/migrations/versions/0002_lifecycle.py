"""What projects run, what test runs say, and how far the corrections have been decided on."""

from app.store.migrations.sql import run_beside

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    run_beside(__file__)

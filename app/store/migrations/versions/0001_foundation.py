"""Everything that a correction is, from the token that records it to the work that follows."""

from app.store.migrations.sql import run_beside

revision = "0001"
down_revision = None


def upgrade() -> None:
    run_beside(__file__)

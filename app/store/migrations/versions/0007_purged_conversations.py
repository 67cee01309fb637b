"""Of which conversation a purged run was that stands in other runs' contexts."""

from app.store.migrations.sql import run_beside

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    run_beside(__file__)

"""Claims that go on where they were, in a subject that they come back to."""

from app.store.migrations.sql import run_beside

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    run_beside(__file__)

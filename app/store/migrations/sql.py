"""Runs the SQL file that lies beside a revision."""

from __future__ import annotations

from pathlib import Path

from alembic import op


def run_beside(revision_file: str) -> None:
    """Run ``NNNN_name.sql`` for ``NNNN_name.py``, whole, as PostgreSQL reads it (no parameters)."""
    text = Path(revision_file).with_suffix(".sql").read_text("utf-8")
    cursor = op.get_bind().connection.cursor()
    try:
        cursor.execute(text)
    finally:
        cursor.close()

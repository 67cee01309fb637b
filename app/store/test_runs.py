"""Test runs: what they said of corrections, and what came of it."""

from __future__ import annotations

from app.store.engine import Db

_COUNT = """
UPDATE test_runs SET fixed_count = fixed_count + %(fixed)s, reopened_count = reopened_count + %(reopened)s
 WHERE tenant_id = %(tenant)s AND id = %(id)s
"""


def count(db: Db, tenant_id: str, test_run_id: str, *, fixed: int, reopened: int) -> None:
    """Count transitions that a test run brought. Holds its row until the transaction ends: do it late."""
    db.run(_COUNT, {"tenant": tenant_id, "id": test_run_id, "fixed": fixed, "reopened": reopened})

"""Adds the replay context to a corrected run's copy."""

from __future__ import annotations

from app.store.engine import Db


def capture_context(tx: Db, tenant_id: str, run_id: str) -> bool:
    """Add the replay context to the copy of ``run_id``, as of the run's first correction. Says whether it did.

    Does nothing when there is no copy, when it has its context, or when it was erased. Safe to repeat.
    """
    raise NotImplementedError

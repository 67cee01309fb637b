"""Finds what should have happened and didn't, and has it happen. Nothing should ever be found."""

from __future__ import annotations

from app import log
from app.services import route
from app.store import heartbeats, upkeep
from app.store.engine import Db


def sweep_captures(tx: Db) -> bool:
    """Ask for contexts that nobody is about to add; true if there may be more."""
    count = upkeep.ask_captures(tx)
    if count:
        log.log.warning("sweep: copies were without a context and without a job", count=count)
    return count == upkeep.BATCH


def sweep_events(tx: Db) -> bool:
    """Ask for the application of events that nobody is about to apply; true if there may be more."""
    count = upkeep.ask_applications(tx)
    if count:
        log.log.warning("sweep: events weren't applied and without a job", count=count)
    return count == upkeep.BATCH


def sweep_erasures(tx: Db) -> bool:
    """Ask for the rest of erasures that nobody is about to go on with; true if there may be more."""
    count = upkeep.ask_erasures(tx)
    if count:
        log.log.warning("sweep: erasures weren't done and without a job", count=count)
    return count == upkeep.BATCH


def sweep_queues(tx: Db) -> bool:
    """Put right the queues of corrections that they aren't true to; true if there may be more."""
    misplaced = upkeep.misplaced(tx)
    for tenant_id, correction_ids in misplaced.items():
        log.log.warning("sweep: queues weren't true to corrections", tenantId=tenant_id, count=len(correction_ids))
        route.sync(tx, tenant_id, correction_ids)
    return sum(map(len, misplaced.values())) >= upkeep.BATCH


def be_seen(tx: Db) -> bool:
    """Leave word that periodic tasks run. Never more to do."""
    heartbeats.beat(tx, "sweep")
    return False

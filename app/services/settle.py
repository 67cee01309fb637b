"""The bookkeeping of a superseded correction: its work is withdrawn, and who had it or owns its subject is told."""

from __future__ import annotations

from collections.abc import Sequence

from app.services import route
from app.services.notify import Event, tell, tell_owners
from app.store import work
from app.store.engine import Db

SUPERSEDED = "correction.superseded"


def settle(tx: Db, tenant_id: str, correction_ids: Sequence[str]) -> None:
    """Withdraw the work of the superseded corrections and tell whoever held it, and the owners, once each."""
    route.sync(tx, tenant_id, correction_ids)
    events = {correction_id: Event(SUPERSEDED, correction_id, "") for correction_id in correction_ids}
    holders = work.holders_at_end(tx, tenant_id, correction_ids, "superseded")
    tell(tx, tenant_id, [(events[correction_id], holder) for correction_id, holder in holders])
    tell_owners(tx, tenant_id, list(events.values()))

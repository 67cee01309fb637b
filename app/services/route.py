"""Make the queues agree with corrections: put in, move, withdraw. Doing it twice changes nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from app.domain import jobs
from app.domain.model import Queue
from app.domain.routing import EndedReason, Place, ended_reason, queue_of
from app.store import outbox, work
from app.store.engine import Db
from app.store.ids import new_id

BATCH = 1000
ANNOUNCED_TOGETHER = 100


def sync(tx: Db, tenant_id: str, correction_ids: Iterable[str]) -> None:
    """Make the work items of the corrections true to them as they stand in ``tx``.

    A few set-based statements for each thousand. Locks the corrections against change until the transaction ends;
    call it after what changed them. Unknown ids are left out.
    """
    ids = sorted(set(correction_ids))
    for start in range(0, len(ids), BATCH):
        _sync(tx, tenant_id, ids[start : start + BATCH])


def _sync(tx: Db, tenant_id: str, ids: Sequence[str]) -> None:
    places = work.lock_places(tx, tenant_id, ids)
    held = work.unended(tx, tenant_id, ids)
    ends, wanted = changes(places, held)
    if ends:
        work.withdraw(tx, tenant_id, ends)
    if wanted:
        made = work.put_in(tx, tenant_id, [(new_id(), correction, queue) for correction, queue in wanted.items()])
        _announce(tx, tenant_id, [correction for correction in made if wanted[correction] == "improve"])


def changes(
    places: dict[str, Place], held: dict[str, tuple[str, Queue]]
) -> tuple[dict[str, EndedReason], dict[str, Queue]]:
    """What is to change: the items to end, by id, with why; and the corrections to put in, with their queue."""
    ends: dict[str, EndedReason] = {}
    wanted: dict[str, Queue] = {}
    for correction, place in places.items():
        queue = queue_of(place)
        item_id, held_in = held.get(correction, (None, None))
        if queue == held_in:
            continue
        if item_id is not None:
            ends[item_id] = ended_reason(place)
        if queue is not None:
            wanted[correction] = queue
    return ends, wanted


def _announce(tx: Db, tenant_id: str, correction_ids: Sequence[str]) -> None:
    chunks = (correction_ids[i : i + ANNOUNCED_TOGETHER] for i in range(0, len(correction_ids), ANNOUNCED_TOGETHER))
    outbox.put(tx, tenant_id, [jobs.improve(chunk) for chunk in chunks])

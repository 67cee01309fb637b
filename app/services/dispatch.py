"""From events to messages: whom word of each goes to, and into which message it is put."""

from __future__ import annotations

from collections.abc import Sequence

from app.domain.endpoints import Endpoint, addressees
from app.domain.messages import MOST_IN_DIGEST, Word
from app.domain.model import Principal
from app.store import deliveries, endpoints
from app.store.engine import Db


def dispatch(tx: Db, tenant_id: str, words: Sequence[Word]) -> None:
    """Put ``words`` into the messages of all endpoints that they concern. Doing it twice adds nothing."""
    owners = {owner for word in words for owner in word.owners}
    live = endpoints.concerned(tx, tenant_id, {word.project_id for word in words}, owners) if words else []
    for endpoint, its in _by_endpoint(words, live):
        deliveries.add(tx, tenant_id, endpoint, its, MOST_IN_DIGEST)


def _by_endpoint(words: Sequence[Word], live: Sequence[Endpoint]) -> list[tuple[Endpoint, list[Word]]]:
    """Each endpoint with its words, in the order of ``live``: whoever adds to several locks them in the same order."""
    known: dict[tuple[str, str, tuple[Principal, ...]], list[Endpoint]] = {}
    found: dict[str, list[Word]] = {}
    for word in words:
        to = (word.type, word.project_id, word.owners)
        if to not in known:
            known[to] = addressees(word.type, word.project_id, word.owners, live)
        for endpoint in known[to]:
            found.setdefault(endpoint.id, []).append(word)
    return [(endpoint, found[endpoint.id]) for endpoint in live if endpoint.id in found]

"""Adds the replay context to a corrected run's copy."""

from __future__ import annotations

from app.domain import context
from app.domain.context import Context
from app.store import copies
from app.store.engine import Db


def capture_context(tx: Db, tenant_id: str, run_id: str) -> bool:
    """Add the replay context to the copy of ``run_id``, as of the run's first correction. Says whether it did.

    Does nothing when there is no copy, when it has its context, or when it was erased. Safe to repeat.
    """
    copy = copies.lock_waiting(tx, tenant_id, run_id)
    if copy is None:
        return False
    made = _flow(tx, tenant_id, copy) if copy.kind == "flow" else _agent(tx, tenant_id, copy)
    copies.add_context(tx, tenant_id, run_id, made)
    return True


def _agent(tx: Db, tenant_id: str, copy: copies.Waiting) -> Context:
    own = next(copies.parts(tx, tenant_id, [copy.run_id], {}), None)
    turn = copies.turn(tx, tenant_id, copy.run_id)
    if own is None or turn is None:
        return context.bare_context(copy.replay_of)
    turns = copies.earlier_messages(tx, tenant_id, copy, turn) if turn.conversation_id is not None else None
    return context.agent_context(own, turns, copy.replay_of)


def _flow(tx: Db, tenant_id: str, copy: copies.Waiting) -> Context:
    nodes, sizes = copies.below(tx, tenant_id, copy)
    if copy.run_id not in sizes:
        return context.bare_context(copy.replay_of)
    ids = list(context.depth_first(copy.run_id, nodes))
    return context.flow_context(copy.run_id, copies.parts(tx, tenant_id, ids, sizes), copy.replay_of)

"""Erases what people wrote, for good: asked for at once, done by workers in steps that go on where they broke off.

What had come when it was asked for is erased. A step is a transaction; each may be repeated.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from app.domain import context, jobs
from app.domain.erasing import Target
from app.domain.errors import ConversationNotFound, ErasureNotFound, ParticipantNotFound, RunNotFound
from app.domain.model import Caller
from app.domain.permission import may, may_tenant, need, need_tenant
from app.store import clearing, erasures, outbox, participants
from app.store.engine import Db
from app.store.erasures import Erasure, Phase
from app.store.ids import new_id

CORRECTIONS_AT_ONCE = 100
"""Corrections that one step clears."""


def ask(tx: Db, caller: Caller, target: Target) -> str:
    """Ask for the erasure of ``target``; the erasure's id. A participant's tokens end at once: they hold who it is.

    :raises RunNotFound, PermissionDenied: of a run, without admin on its project;
    :raises PermissionDenied, ConversationNotFound, ParticipantNotFound: of anything else, without admin on the tenant.
    """
    project_id = _project_of(tx, caller, target.id) if target.kind == "run" else None
    if target.kind != "run":
        _need_known(tx, caller, target)
    if target.kind == "participant":
        participants.forget(tx, caller.tenant_id, target.id)
    erasure_id = new_id()
    erasures.add(tx, caller.tenant_id, erasure_id, target, project_id, caller.principal)
    outbox.put(tx, caller.tenant_id, [jobs.erase(erasure_id)])
    return erasure_id


def _project_of(tx: Db, caller: Caller, run_id: str) -> str:
    project = erasures.project_of_run(tx, caller.tenant_id, run_id)
    if project is None or not may(caller, "read", project):
        raise RunNotFound("There is no such run.")
    need(caller, "admin", project)
    return project.id


def _need_known(tx: Db, caller: Caller, target: Target) -> None:
    need_tenant(caller, "admin")
    if not erasures.known(tx, caller.tenant_id, target):
        if target.kind == "conversation":
            raise ConversationNotFound("There is no run of this conversation.")
        raise ParticipantNotFound("Nothing is known of this participant.")


def show(db: Db, caller: Caller, erasure_id: str) -> dict[str, Any]:
    """The erasure as the wire shows it, to whom could have asked for it.

    :raises ErasureNotFound: if there is none, or none for the caller.
    """
    shown = erasures.show(db, caller.tenant_id, erasure_id)
    if shown is None or not (
        may(caller, "admin", shown.project) if shown.project is not None else may_tenant(caller, "admin")
    ):
        raise ErasureNotFound("There is no such erasure.")
    return shown.row


def step(tx: Db, tenant_id: str, erasure_id: str) -> bool:
    """Do the next step of the erasure; true if there is more to do."""
    erasure = erasures.hold(tx, tenant_id, erasure_id)
    if erasure is None:
        return False
    _STEPS[erasure.phase](tx, erasure)
    return True


def _list(tx: Db, erasure: Erasure) -> None:
    erasures.list_items(tx, erasure)
    erasures.go_on(tx, erasure, "clear")


def _clear(tx: Db, erasure: Erasure) -> None:
    """A run at a time: whoever holds two would keep captures waiting in a circle."""
    corrections = erasure.kind == "participant"
    ids = erasures.next_items(tx, erasure, CORRECTIONS_AT_ONCE if corrections else 1)
    if not ids:
        erasures.go_on(tx, erasure, "answers" if corrections else "contexts")
    elif corrections:
        erasures.count(tx, erasure, corrections=clearing.clear_corrections(tx, erasure.tenant_id, ids))
    else:
        runs, copies = clearing.clear_run(tx, erasure.tenant_id, ids[0])
        erasures.count(tx, erasure, runs=runs, copies=copies)
    erasures.cleared(tx, erasure, ids)


def _contexts(tx: Db, erasure: Erasure) -> None:
    run_id = clearing.next_context(tx, erasure)
    if run_id is None:
        erasures.go_on(tx, erasure, "answers")
        return
    held = clearing.hold_context(tx, erasure, run_id)
    if held is None:
        return
    text = context.without(held.text, held.sources, held.erased)
    clearing.put_context(tx, erasure.tenant_id, held, text)
    erasures.touched(tx, erasure, held.run_id)
    erasures.count(tx, erasure, contexts=1)


def _answers(tx: Db, erasure: Erasure) -> None:
    """Look through the kept answers; then again for what was committed late, though it came before."""
    if clearing.withhold_answers(tx, erasure):
        return
    if erasures.list_items(tx, erasure):
        erasures.go_on(tx, erasure, "clear")
    else:
        erasures.end(tx, erasure)


_STEPS: dict[Phase, Callable[[Db, Erasure], None]] = {
    "list": _list,
    "clear": _clear,
    "contexts": _contexts,
    "answers": _answers,
}

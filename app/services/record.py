"""Records a correction: checks it against its run, sorts it, and writes it with all that follows."""

from __future__ import annotations

from dataclasses import dataclass, replace

from app.domain import assertion, jobs, json_text, participants
from app.domain.errors import RunErased, RunNotFinished, RunNotFound
from app.domain.jobs import Job
from app.domain.model import RULE, Actor, Caller, Standing
from app.domain.permission import need
from app.domain.recording import Said, check_pointers
from app.domain.sorting import standing_at_save
from app.store import corrections
from app.store.corrections import HistoryEntry, NewCorrection, RunContext
from app.store.engine import Db
from app.store.ids import new_id


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a caller wants recorded on the run ``run_id``."""

    run_id: str
    said: Said
    corrector_group_id: str | None = None
    participant_id: str | None = None


def record(tx: Db, caller: Caller, wanted: Wanted) -> str:
    """Record what ``caller`` says; the new correction's JSON. It ends the one that the same caller made before.

    :raises PermissionDenied: first, for a participant's token of another run or participant;
    :raises RunNotFound, PermissionDenied, RunErased, RunNotFinished: what the run is, in this order;
    :raises CorrectorGroupNotApplicable, CorrectorGroupNotAllowed, ItemNotFound: then what is said of it.
    """
    if caller.participant is not None:
        own = participants.own(caller.participant, wanted.run_id, wanted.participant_id)
        wanted = replace(wanted, participant_id=own)
    context = _checked(tx, caller, wanted)
    expert = context.group is not None and context.group.restricted
    end_user = wanted.participant_id is not None and not expert
    new = NewCorrection(
        new_id(),
        caller.tenant_id,
        wanted.run_id,
        wanted.said,
        wanted.corrector_group_id,
        expert,
        caller.principal,
        wanted.participant_id,
        end_user,
        standing_at_save(wanted.said, end_user, context.at),
    )
    return corrections.record(tx, new, context, _history(caller, new.standing), _jobs(new, context))


def _checked(tx: Db, caller: Caller, wanted: Wanted) -> RunContext:
    items = wanted.said.items
    pointing = any(item.pointer is not None for item in items)
    context = corrections.recording_context(
        tx,
        caller.tenant_id,
        wanted.run_id,
        caller.principal,
        wanted.participant_id,
        wanted.corrector_group_id,
        pointing,
    )
    if context is None:
        raise RunNotFound("There is no such run.")
    need(caller, "write", context.project)
    if context.erased:
        raise RunErased("The run's content was erased; there is nothing to correct.")
    if not context.finished:
        raise RunNotFinished("The run has no output to correct yet.")
    if wanted.corrector_group_id is not None:
        assertion.check(context.group, context.project.id, context.subject, caller)
    if pointing:
        check_pointers(items, json_text.structure(context.output or "null"))
    return context


def _history(caller: Caller, standing: Standing) -> list[HistoryEntry]:
    entries = [HistoryEntry("recorded", Actor.of(caller.principal), to=standing.status)]
    if standing.sorted is not None:
        entries.append(HistoryEntry("sorted", RULE, to=standing.sorted_to))
    if standing.fixed_in is not None:
        entries.append(HistoryEntry("fixed", how=standing.fixed_in.how))
    return entries


def _jobs(new: NewCorrection, context: RunContext) -> list[Job]:
    following = []
    if context.first:
        following.append(jobs.capture(new.run_id))
    if context.live_id is not None:
        following.append(jobs.settle(context.live_id))
    if new.standing.sorted_to is not None:
        following.append(jobs.route(new.id))
    if new.standing.status == "with-owner":
        following.append(jobs.notify("correction.with-owner", new.id, "1"))
    return following

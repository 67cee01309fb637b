"""Changes by hand: each takes its place among the events, for what was accepted before it is applied to it first."""

from __future__ import annotations

from collections.abc import Callable

from app.domain import changing, jobs, links
from app.domain.changing import Change
from app.domain.errors import CorrectionNotFound, CorrectionRemoved, CorrectionSuperseded, PreconditionFailed
from app.domain.jobs import Job
from app.domain.messages import WITH_OWNER
from app.domain.model import Actor, Caller, Principal, Standing
from app.domain.permission import may, need
from app.services.fold import fold_pending
from app.store import history, outbox, running, standings
from app.store.engine import Db
from app.store.standings import Held, Note, Shown

Matches = Callable[[int], bool]
"""Whether a version of the row is the one that the caller means."""


def change(tx: Db, caller: Caller, correction_id: str, asked: Change, matches: Matches) -> Shown:
    """Change the correction as ``caller`` asks; it comes back as it is then.

    :raises CorrectionNotFound, PermissionDenied, CorrectionSuperseded, CorrectionRemoved: in this order;
    :raises PreconditionFailed: unless it ``matches``;
    :raises BadInput: if the status that is asked for can't hold.
    """
    held = refuse_ended(hold(tx, caller, correction_id))
    folded, following = fold_pending(tx, held)
    if not matches(held.version if folded == held.standing else held.version + 1):
        raise PreconditionFailed("The correction has changed since: fetch it again.")
    return write(tx, held.changed(folded), asked, Actor.of(caller.principal), caller.principal, following)


def remove(tx: Db, caller: Caller, correction_id: str, note: str | None, matches: Matches) -> Shown:
    """Remove the correction for good. Doing it again changes nothing and answers the same.

    Events that weren't applied to it before no longer are.

    :raises CorrectionNotFound, PermissionDenied, CorrectionSuperseded: in this order;
    :raises PreconditionFailed: unless it ``matches``.
    """
    held = hold(tx, caller, correction_id)
    if held.superseded:
        raise CorrectionSuperseded("The correction was superseded.")
    if held.standing.status == "removed":
        return standings.show(tx, held.tenant_id, held.id)
    if not matches(held.version):
        raise PreconditionFailed("The correction has changed since: fetch it again.")
    by, was = Actor.of(caller.principal), held.standing.status
    held = held.changed(changing.remove(held.standing))
    shown = standings.save(tx, held, held.link, Note(note, caller.principal) if note else None, running.clock(tx))
    history.add(tx, held.tenant_id, held.id, "removed", by=by, from_value=was, to_value="removed", reason=note)
    outbox.put(tx, held.tenant_id, [jobs.route(held.id)])
    return shown


def hold(tx: Db, caller: Caller, correction_id: str) -> Held:
    """The correction that ``caller`` may change, held against any other change until the transaction ends.

    :raises CorrectionNotFound, PermissionDenied: unless the caller has write on its project.
    """
    place = standings.place_of(tx, caller.tenant_id, correction_id)
    if place is None or not may(caller, "read", place[0]):
        raise CorrectionNotFound("There is no such correction.")
    need(caller, "write", place[0])
    held = standings.hold(tx, caller.tenant_id, correction_id, *place)
    if held is None:
        raise CorrectionNotFound("There is no such correction.")
    return held


def refuse_ended(held: Held) -> Held:
    """``held``, if it is live.

    :raises CorrectionSuperseded, CorrectionRemoved: if it isn't.
    """
    if held.superseded:
        raise CorrectionSuperseded("The correction was superseded.")
    if held.standing.status == "removed":
        raise CorrectionRemoved("The correction was removed.")
    return held


def write(tx: Db, held: Held, asked: Change, by: Actor, caller: Principal, following: list[Job]) -> Shown:
    """Make the change of a held correction that all earlier events are in, by ``by``; ``caller`` signs its note.

    ``following``: jobs that these events brought.

    :raises BadInput: if the status that is asked for can't hold.
    """
    now = running.clock(tx)
    after = changing.change(held.standing, asked, by, now)
    link = None if asked.unlink else asked.link or held.link
    shown = standings.save(tx, held.changed(after), link, Note(asked.note, caller) if asked.note else None, now)
    _tell(tx, held, after, asked, by)
    if after.status == "with-owner" and held.standing.status != "with-owner":
        following = [*following, jobs.notify(WITH_OWNER, held.id, str(shown.version))]
    outbox.put(tx, held.tenant_id, [jobs.route(held.id), *following])
    return shown


def _tell(tx: Db, held: Held, after: Standing, asked: Change, by: Actor) -> None:
    """The history of the change: a row for each thing that it did."""
    before, key = held.standing, (held.tenant_id, held.id)
    if after.sorted != before.sorted:
        history.add(
            tx, *key, "sorted", by=by, from_value=before.sorted_to, to_value=after.sorted_to, reason=asked.reason
        )
    if asked.status is not None or after.status != before.status:
        history.add(tx, *key, "status", by=by, from_value=before.status, to_value=after.status)
    if asked.link is not None or (asked.unlink and held.link is not None):
        was, now = (links.name_of(link) if link else None for link in (held.link, asked.link))
        history.add(tx, *key, "linked", by=by, from_value=was, to_value=now)
    if asked.note is not None:
        history.add(tx, *key, "noted", by=by, reason=asked.note)

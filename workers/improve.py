"""The task ``corrigenda.improve``: hands what waits for Improve to whoever the operator chose.

The announcements that come with it are hints: what waits is in the database and taken under leases, so that any number
of workers, and any number of messages, hand it over once; what one that died had in hand comes again after its lease.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import entry_points

from app import log
from app.channels.guard import Guard
from app.channels.http import Http
from app.channels.improver import Endpoint, Function, Improver, NotTaken
from app.config import Settings
from app.domain.jobs import IMPROVE
from app.failure import Failure
from app.services import improve
from app.services.improve import Brief
from app.store import briefs
from app.store.briefs import Lane
from app.store.engine import reading
from app.transaction import transaction
from workers.task import Runner, measured

GROUP = "corrigenda.improvers"
"""The group of entry points that take briefs: functions of one dict."""


def find_improver(settings: Settings) -> Improver | None:
    """Who takes briefs: the endpoint of the settings, else the installed entry point; ``None`` if there is neither.

    :raises Failure: if it isn't clear who, or the settings don't suffice.
    """
    if settings.improve_url:
        if not settings.improve_secret:
            raise Failure("CORRIGENDA_IMPROVE_URL needs CORRIGENDA_IMPROVE_SECRET, by which it knows that we send.")
        # The operator chose the address, so it may be on the operator's own network.
        return Endpoint(settings.improve_url, settings.improve_secret, Http(Guard(allow_private=True)))
    found = {each.name: each for each in entry_points(group=GROUP)}
    if not found and not settings.improver:
        return None
    name = settings.improver or (next(iter(found)) if len(found) == 1 else "")
    if name not in found:
        raise Failure(f"CORRIGENDA_IMPROVER must name an installed improver: {', '.join(sorted(found)) or 'none is'}.")
    try:
        return Function(found[name].load())
    except Exception as error:  # it is the operator's: anything may be wrong with it
        why = f"{type(error).__name__}: {' '.join(str(error).split())}"
        raise Failure(f"The improver {name} ({found[name].value}) can't be loaded: {why}") from error


class Improving:
    """Does what an announcement asks for."""

    def __init__(self, runner: Runner, improver: Improver, max_attempts: int) -> None:
        self._runner = runner
        self._improver = improver
        self._max_attempts = max_attempts

    def run(self, tenant_id: str, correction_ids: Sequence[str]) -> None:
        """Hand over what waits of the subjects of the corrections, a brief for each in its project."""
        with measured(IMPROVE):
            with reading(self._runner.engine) as db:
                lanes = briefs.lanes_of(db, tenant_id, correction_ids)
            for lane in lanes:
                self._hand_over(tenant_id, lane)

    def _hand_over(self, tenant_id: str, lane: Lane) -> None:
        with transaction(self._runner.engine) as tx:
            brief = improve.take(tx, tenant_id, lane, self._max_attempts)
        if brief is None:
            return
        with log.bound(briefId=brief.id):
            try:
                run_id = self._improver(brief.id, brief.json)
            except NotTaken as refused:
                log.log.warning("brief not taken", reason=str(refused))
                self._give_up(brief, str(refused))
            except Exception as error:
                log.log.exception("the improver failed")
                self._give_up(brief, f"the improver failed: {type(error).__name__}")
            else:
                with transaction(self._runner.engine) as tx:
                    improve.handed_over(tx, brief, run_id)
                log.log.info("brief handed over", corrections=len(brief.claims))

    def _give_up(self, brief: Brief, reason: str) -> None:
        with transaction(self._runner.engine) as tx:
            improve.give_up(tx, brief, reason, self._max_attempts)

"""Takes runs in."""

from __future__ import annotations

from app.domain.ingesting import Result, result_of
from app.domain.model import Caller, RunContent
from app.services.projects import allowed
from app.store import runs
from app.store.engine import Db, busy
from app.store.running import acquaint

_ATTEMPTS = 10


def put_run(tx: Db, caller: Caller, run_id: str, content: RunContent) -> Result:
    """Make the run, or move it on; the same content again changes nothing.

    :raises ProjectNotFound: if there is no such project, or none that the caller can read.
    :raises PermissionDenied: without write on it.
    :raises RunProjectMismatch: ``RunErased``, ``RunAlreadyTerminal``: see ``result_of``.
    """
    for _ in range(_ATTEMPTS):
        project, known = runs.before_put(tx, caller.tenant_id, run_id, content.project_id)
        allowed(caller, content.project_id, project, "write")
        result = result_of(known, content)
        if result == "unchanged":
            return result
        if known is None:
            written = runs.add(tx, caller.tenant_id, run_id, content)
        else:
            written = runs.replace(tx, caller.tenant_id, run_id, content, known)
        if written:
            acquaint(tx, caller.tenant_id, content.project_id, content.subject)
            return result
    raise busy()

"""Registers agents and flows: their names and owners."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from app.domain.model import Caller, SubjectKind
from app.domain.permission import need_tenant
from app.store import subjects
from app.store.engine import Db
from app.store.subjects import Registration


def put_subject(tx: Db, caller: Caller, kind: SubjectKind, subject_id: str, said: dict[str, Any]) -> bool:
    """Register the subject, or change what is ``said`` of it: ``name`` and ``owners``, each if it is there.

    Says whether it is new here; runs may have made it known before.

    :raises PermissionDenied: without admin on the tenant.
    """
    need_tenant(caller, "admin")
    before = subjects.lock(tx, caller.tenant_id, kind, subject_id)
    after = replace(before or Registration(), **said)
    if after != before:
        subjects.register(tx, caller.tenant_id, kind, subject_id, after)
    return before is None

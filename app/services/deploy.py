"""Deploys, pins and unpins: what runs moves at once, and the log says what workers have to decide after it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from app.domain import jobs, running
from app.domain.errors import NotPinned
from app.domain.model import Caller, Subject
from app.domain.permission import need_tenant
from app.domain.running import Current, Latest
from app.services.projects import project_for
from app.store import events, outbox
from app.store import running as store
from app.store.engine import Db
from app.store.ids import new_id


@dataclass(frozen=True, slots=True)
class Resolves:
    """What a deploy or pin says that it fixes. ``links`` are JSON texts as they are stored of a correction."""

    correction_ids: tuple[str, ...] = ()
    links: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Accepted:
    """What was accepted: its id, when, and what each project that it moved runs after it."""

    id: str
    at: datetime
    changed: dict[str, Current]


def deploy(
    tx: Db, caller: Caller, subject: Subject, how: Literal["deploy", "add"], resolves: Resolves, at: datetime | None
) -> Accepted:
    """Deploy ``subject.version`` as of ``at`` (now when ``None`` or later).

    :raises PermissionDenied: without write on the tenant.
    """
    need_tenant(caller, "write")
    tenant_id, deploy_id = caller.tenant_id, new_id()
    assert subject.version is not None
    latest = store.lock_latest(tx, tenant_id, subject)
    now = store.clock(tx)
    at = min(at or now, now)
    moves = running.moves(latest, subject.version, at)
    events.see(tx, tenant_id, subject)
    events.add_deploy(tx, tenant_id, subject, deploy_id, how=how, at=at, now=now, by=caller.principal, moved=moves)
    changed: list[str] = []
    if moves:
        _resolve(tx, tenant_id, None, subject, deploy_id, resolves)
        store.set_latest(tx, tenant_id, subject, Latest(subject.version, at, deploy_id))
        changed = concerned = events.latest_moves(tx, tenant_id, subject, deploy_id, now)
    elif latest is not None and latest.version == subject.version:
        _resolve(tx, tenant_id, None, subject, deploy_id, resolves)
        concerned = events.latest_resolves(tx, tenant_id, subject, deploy_id, now)
    else:
        concerned = []
    outbox.put(tx, tenant_id, [jobs.apply(project, subject.kind, subject.id) for project in concerned])
    return Accepted(deploy_id, now, {project: Current(subject.version, "latest") for project in changed})


def pin(tx: Db, caller: Caller, project_id: str, subject: Subject, resolves: Resolves) -> Accepted:
    """Pin the project to ``subject.version``.

    :raises ProjectNotFound, PermissionDenied: unless the caller has write on the project.
    """
    project_for(tx, caller, project_id, "write")
    tenant_id, pin_id = caller.tenant_id, new_id()
    assert subject.version is not None
    before, _ = store.lock_current(tx, tenant_id, project_id, subject)
    events.see(tx, tenant_id, subject)
    seen = events.first_seen(tx, tenant_id, subject, [subject.version, before.version])
    after = running.pinned(before, subject.version, caller.principal, seen)
    names = _resolve(tx, tenant_id, project_id, subject, pin_id, resolves)
    return _accept(tx, tenant_id, project_id, subject, "pin", pin_id, before, after, pin_id if names else None)


def unpin(tx: Db, caller: Caller, project_id: str, subject: Subject) -> Accepted:
    """Let the project follow Latest of ``subject`` again.

    :raises ProjectNotFound, PermissionDenied: unless the caller has write on the project.
    :raises NotPinned: if it has no pin of it.
    """
    project_for(tx, caller, project_id, "write")
    tenant_id = caller.tenant_id
    before, latest = store.lock_current(tx, tenant_id, project_id, subject)
    if not before.pinned:
        raise NotPinned("The project has no pin of this subject.")
    after = running.unpinned(latest, caller.principal)
    brought = latest.deploy_id if latest is not None and latest.version != before.version else None
    return _accept(tx, tenant_id, project_id, subject, "unpin", new_id(), before, after, brought)


def _resolve(
    tx: Db, tenant_id: str, project_id: str | None, subject: Subject, source_id: str, resolves: Resolves
) -> bool:
    if not resolves.correction_ids and not resolves.links:
        return False
    ids, links = list(resolves.correction_ids), list(resolves.links)
    return events.resolve(tx, tenant_id, project_id, subject, source_id, ids, links)


def _accept(
    tx: Db,
    tenant_id: str,
    project_id: str,
    subject: Subject,
    kind: str,
    source_id: str,
    before: Current,
    after: Current,
    resolves_id: str | None,
) -> Accepted:
    now = store.clock(tx)
    decides = running.decides(before, after, names=resolves_id is not None)
    events.accept(
        tx,
        tenant_id,
        project_id,
        subject,
        kind=kind,
        source_id=source_id,
        now=now,
        after=after,
        moved=True,
        decides=decides,
        resolves_id=resolves_id,
    )
    outbox.put(tx, tenant_id, [jobs.apply(project_id, subject.kind, subject.id)])
    return Accepted(source_id, now, {project_id: after})

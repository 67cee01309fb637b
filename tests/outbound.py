"""What tests of messages share: a tenant whose subject has owners, endpoints at local receivers, a sender."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Engine

from app.channels.email import MailServer
from app.channels.guard import Guard
from app.channels.http import Http
from app.channels.post import Post
from app.config import Settings
from app.domain.jobs import NOTIFY
from app.domain.messages import EVENTS
from app.domain.model import Principal
from app.services import keep_endpoints
from app.services.keep_endpoints import Keeping, Wanted
from app.services.vault import open_vault
from app.store.engine import reading
from app.transaction import transaction
from tests.client import Client
from tests.factories import a_run, an_owner
from workers import notices, supersession
from workers.deliveries import Sender
from workers.task import Runner

WRONG = {"decisions": "wrong", "mustNotCall": ["refund"]}


@dataclass
class Outbound:
    """One tenant. ``seconds`` is the longest that an attempt may take."""

    engine: Engine
    settings: Settings
    admin: Client
    mail_server: MailServer | None = None
    seconds: float = 0.5
    overlap_hours: int = 24
    secrets: dict[str, str] = field(default_factory=dict)

    @property
    def tenant(self) -> str:
        return self.admin.caller.tenant_id

    def own(self, *owners: str) -> None:
        """Make users the owners of agent ``support``."""
        with transaction(self.engine) as tx:
            tx.run("DELETE FROM subject_owners WHERE tenant_id = %s AND id = 'support'", (self.tenant,))
        an_owner(self.engine, self.tenant, *owners)

    def endpoint(
        self,
        target: str,
        *,
        kind: str = "webhook",
        owner: str | None = None,
        project: str | None = None,
        digest: int = 0,
        events: tuple[str, ...] = EVENTS,
    ) -> str:
        """An endpoint of ``owner``, of ``project`` or of the tenant; its id."""
        scope = "principal" if owner else "project" if project else "tenant"
        principal = Principal("user", owner) if owner else None
        wanted = Wanted(kind, target, events, scope, project, principal, digest)  # type: ignore[arg-type]
        with transaction(self.engine) as tx:
            endpoint, secret = keep_endpoints.register(tx, self.keeping(tx), self.admin.caller, wanted)
        self.secrets[endpoint.id] = secret or ""
        return endpoint.id

    def keeping(self, tx: Any) -> Keeping:
        return Keeping(open_vault(tx, self.settings), Guard(True), self.overlap_hours)

    def correct(self, count: int = 1, run_id: str | None = None, **body: Any) -> list[str]:
        """Record corrections that go to the owner; their ids."""
        ids = []
        for _ in range(count):
            run = run_id or a_run(self.engine, self.tenant)
            answer = self.admin.post("/v1/corrections", {"runId": run, **WRONG, **body})
            assert answer.status_code == 201, answer.text
            ids.append(answer.json["id"])
        return ids

    def work(self) -> None:
        """Let a worker do the jobs that tell people."""
        for handler in (*supersession.handlers, *notices.handlers):
            with reading(self.engine) as db:
                rows = db.rows(
                    "SELECT id FROM outbox WHERE tenant_id = %s AND job = %s AND done_at IS NULL ORDER BY id",
                    (self.tenant, handler.job),
                )
            for start in range(0, len(rows), 100):
                batch = [row[0] for row in rows[start : start + 100]]
                Runner(self.settings).run(handler, self.tenant, batch)

    def again(self) -> None:
        """Let the jobs that tell people be done once more, as if they never had been."""
        with transaction(self.engine) as tx:
            tx.run("UPDATE outbox SET done_at = NULL WHERE tenant_id = %s AND job = %s", (self.tenant, NOTIFY))
        self.work()

    def sender(self) -> Sender:
        post = Post(
            Http(Guard(True), total_seconds=self.seconds), self.mail_server, "c@corrigenda.test", "https://c.test"
        )
        return Sender(self.engine, self.settings, post)

    def send(self) -> None:
        """Send all that is due, and wait until it was."""
        found = True
        while found:
            sender = self.sender()
            found = sum(iter(sender.send_next, False)) > 0
            sender.close()

    def time_passes(self) -> None:
        """Make due what waits, and end all leases."""
        with transaction(self.engine) as tx:
            tx.run(
                "UPDATE deliveries SET due_at = clock_timestamp(), leased_until = NULL"
                " WHERE tenant_id = %s AND status = 'pending'",
                (self.tenant,),
            )

    def deliveries(self, endpoint_id: str) -> list[dict[str, Any]]:
        """An endpoint's deliveries as the API lists them, oldest first."""
        answer = self.admin.get(f"/v1/notification-endpoints/{endpoint_id}/deliveries?limit=100")
        assert answer.status_code == 200, answer.text
        return list(reversed(answer.json["data"]))

    def shown(self, endpoint_id: str) -> dict[str, Any]:
        return dict(self.admin.get(f"/v1/notification-endpoints/{endpoint_id}").json)

    def inbox(self, user: str) -> list[dict[str, Any]]:
        """The type and data of what ``user`` was told, oldest first."""
        with reading(self.engine) as db:
            rows = db.rows(
                "SELECT type, data FROM notifications WHERE tenant_id = %s AND principal_id = %s ORDER BY at, id",
                (self.tenant, user),
            )
        return [{"type": type, "data": json.loads(data)} for type, data in rows]

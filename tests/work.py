"""Work as its consumers see it: corrections that wait, and whoever claims them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Engine

from app.services import route
from app.store.engine import reading
from app.transaction import transaction
from tests.client import Client
from tests.factories import a_run
from tests.lifecycle import WRONG_ANSWER

RUN_LINK = {"kind": "improve-run", "id": "imp-1"}
BEING_FIXED = {"kind": "being-fixed", "link": RUN_LINK}


@dataclass
class Work:
    """A tenant's work through ``client``; ``wait`` makes what there is to claim."""

    client: Client
    engine: Engine

    @property
    def tenant(self) -> str:
        return self.client.caller.tenant_id

    def wait(self, count: int = 1, *, subject: str = "support", project: str = "p", **said: Any) -> list[str]:
        """Record corrections, of Improve's kind unless ``said``, and have them routed; their ids, oldest first."""
        ids = []
        for _ in range(count):
            run = a_run(self.engine, self.tenant, subject_id=subject, project_id=project)
            answer = self.client.post("/v1/corrections", {"runId": run} | (said or WRONG_ANSWER))
            assert answer.status_code == 201, answer.text
            ids.append(answer.json["id"])
        self.route(*ids)
        return ids

    def route(self, *corrections: str) -> None:
        """Let a worker make the queues true to the corrections."""
        with transaction(self.engine) as tx:
            route.sync(tx, self.tenant, corrections)

    def claim(self, limit: int = 1, queue: str = "improve", **more: Any) -> list[dict[str, Any]]:
        answer = self.client.post("/v1/work/claims", {"queue": queue, "limit": limit, **more})
        assert answer.status_code == 200, answer.text
        return list(answer.json["items"])

    def ask(self, verb: str, item: dict[str, Any], **body: Any) -> str:
        """What the holder of ``item`` is answered: the item's state, or why the lease is lost."""
        defaults = {"renew": {"leaseSeconds": 60}, "complete": {"outcome": BEING_FIXED}}.get(verb, {})
        token = {} if verb == "requeue" else {"leaseToken": item["leaseToken"]}
        answer = self.client.post(f"/v1/work/{item['workItemId']}/{verb}", {**token, **defaults, **body})
        if answer.status_code == 200:
            return str(answer.json["state"])
        assert (answer.status_code, answer.json["error"]["code"]) == (409, "lease-lost"), answer.text
        return f"lost: {answer.json['error']['details']['reason']}"

    def expire(self, *items: dict[str, Any]) -> None:
        """Let the time of leases (of all, without ``items``) be over."""
        ids = [item["workItemId"] for item in items] or None
        with transaction(self.engine) as tx:
            tx.run(
                "UPDATE work_items SET lease_expires_at = clock_timestamp() - interval '1 second'"
                " WHERE tenant_id = %s AND state = 'leased' AND (%s::text[] IS NULL OR id = ANY(%s))",
                (self.tenant, ids, ids),
            )

    def delays_pass(self) -> None:
        with transaction(self.engine) as tx:
            tx.run(
                "UPDATE work_items SET available_at = clock_timestamp() WHERE tenant_id = %s AND delayed",
                (self.tenant,),
            )

    def rows(self, query: str = "") -> list[dict[str, Any]]:
        return list(self.client.get(f"/v1/work?limit=100{query}").json["data"])

    def correction(self, correction_id: str) -> dict[str, Any]:
        return dict(self.client.get(f"/v1/corrections/{correction_id}").json)

    def jobs(self, name: str) -> list[str]:
        """The ids of the outbox rows of a job, as JSON text."""
        with reading(self.engine) as db:
            rows = db.rows("SELECT ids FROM outbox WHERE tenant_id = %s AND job = %s ORDER BY id", (self.tenant, name))
        return [row[0] for row in rows]

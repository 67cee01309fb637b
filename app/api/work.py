"""``/v1/work``: what waits for Improve jobs, developers and owners."""

from __future__ import annotations

import orjson

from app.api.routes import Answer, Call, Routes, after, answer, page
from app.api.schemas.work import WorkPage, WorkQuery, WorkStats
from app.domain.permission import reach
from app.store import work
from app.store.work import Wanted

routes = Routes("work")


@routes.add("GET", "/v1/work", query=WorkQuery, answers={200: WorkPage})
def list_work(call: Call) -> Answer:
    """List work items, newest first.

    Only items of projects that the caller can read. An item whose lease has expired is ready.
    """
    query, limit = call.query, call.query["limit"]
    most = call.service.settings.max_attempts
    wanted = Wanted(most, query.get("queue"), query.get("state"), query.get("project_id"))
    items = work.newest(call.db, call.caller.tenant_id, wanted, reach(call.caller, "read"), limit + 1, after(call))
    return page(
        call, items, limit, lambda item: (item.created_at, item.id), lambda item: orjson.dumps(item.shown()).decode()
    )


@routes.add("GET", "/v1/work/stats", answers={200: WorkStats})
def work_stats(call: Call) -> Answer:
    """Count work items by queue and state, in projects that the caller can read."""
    most = call.service.settings.max_attempts
    return answer({"queues": work.stats(call.db, call.caller.tenant_id, reach(call.caller, "read"), most)})

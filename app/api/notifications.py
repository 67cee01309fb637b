"""``/v1/notifications``: the caller's own inbox."""

from __future__ import annotations

from app.api.routes import Answer, Call, Routes, after, page
from app.api.schemas.notifications import NotificationPage, NotificationQuery, NotificationShape
from app.domain.errors import NotificationNotFound
from app.store import notifications

routes = Routes("notifications")


@routes.add("GET", "/v1/notifications", query=NotificationQuery, answers={200: NotificationPage})
def list_notifications(call: Call) -> Answer:
    """List the caller's own inbox, newest first.

    `unread=true` leaves out what was read, `unread=false` what wasn't.
    """
    caller, limit = call.caller, call.query["limit"]
    rows = notifications.newest(
        call.db, caller.tenant_id, caller.principal, call.query.get("unread"), limit + 1, after(call)
    )
    return page(call, rows, limit, lambda row: (row[0], row[1]), lambda row: row[2])


@routes.add(
    "POST", "/v1/notifications/{notificationId}/read", answers={200: NotificationShape}, missing=NotificationNotFound
)
def read_notification(call: Call) -> Answer:
    """Mark one of the caller's own notifications read. Doing it again changes nothing."""
    caller = call.caller
    row = notifications.mark_read(call.db, caller.tenant_id, caller.principal, call.path["notificationId"])
    if row is None:
        raise NotificationNotFound("There is no such notification.")
    return Answer(200, row)

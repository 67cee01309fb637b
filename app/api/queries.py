"""The query string: strict names, empty values absent, one value each but where several are allowed."""

from __future__ import annotations

from typing import Any

from werkzeug.datastructures import MultiDict

from app.api.schemas.base import Query, Several, load, refusal
from app.domain.errors import BadInput

_NONE = Query()


def load_query(shape: Query | None, args: MultiDict[str, str]) -> dict[str, Any]:
    """The parameters as ``shape`` reads them.

    :raises BadInput: naming each parameter that is unknown, repeated or malformed.
    """
    shape = shape or _NONE
    if not args and shape is _NONE:
        return {}
    several = {f.data_key for f in shape.fields.values() if isinstance(f, Several)}
    known = {f.data_key for f in shape.fields.values()}
    values: dict[str, Any] = {}
    wrong: dict[str, str] = {name: "is not a parameter here" for name in args if name not in known}
    for name, sent in args.lists():
        kept = [value for value in sent if value != ""]
        if name in several and kept:
            values[name] = kept
        elif len(kept) > 1:
            wrong[name] = "must be given once"
        elif kept and name in known:
            values[name] = kept[0]
    if wrong:
        raise refusal({"query": wrong})
    try:
        return load(shape, values)
    except BadInput as error:
        issues = [{"path": "/query" + i["path"], "message": i["message"]} for i in error.details["issues"]]
        raise BadInput(f"{issues[0]['path']} {issues[0]['message']}.", issues=issues) from None

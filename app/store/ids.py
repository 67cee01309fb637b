"""New ids and secrets. Ids are UUIDv7: they sort by the time that they were made, which indexes like."""

from __future__ import annotations

import secrets

import uuid_utils


def new_id() -> str:
    """A new id, 36 characters."""
    return str(uuid_utils.uuid7())


def new_secret() -> str:
    """A new bearer token's secret: 256 random bits behind a prefix that secret scanners can know."""
    return "cgd_" + secrets.token_urlsafe(32)

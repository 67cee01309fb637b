"""New ids and secrets. Ids are UUIDv7: they sort by the time that they were made, which indexes like."""

from __future__ import annotations

import secrets

import uuid_utils


def new_id() -> str:
    """A new id, 36 characters."""
    return str(uuid_utils.uuid7())


PARTICIPANTS = "cgp_"
"""How the secrets of participants' tokens begin: so they are looked up where they are, and all others as ever."""


def new_secret(prefix: str = "cgd_") -> str:
    """A new bearer token's secret: 256 random bits behind a prefix that secret scanners can know."""
    return prefix + secrets.token_urlsafe(32)

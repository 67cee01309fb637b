"""Keeps secrets that must be used again, encrypted with the service's own secret."""

from __future__ import annotations

import base64
import hashlib

from cryptography.fernet import Fernet, InvalidToken

from app.config import Settings
from app.store import secrets
from app.store.engine import Db


class Vault:
    """Seals and opens texts. A dump of the database alone opens none of them when the operator set the secret."""

    def __init__(self, secret: str) -> None:
        key = hashlib.sha256(b"corrigenda vault\x00" + secret.encode()).digest()
        self._fernet = Fernet(base64.urlsafe_b64encode(key))

    def seal(self, text: str) -> bytes:
        """``text`` encrypted."""
        return self._fernet.encrypt(text.encode())

    def open(self, sealed: bytes) -> str | None:
        """What was sealed, or ``None`` when that was with another secret than the one of now."""
        try:
            return self._fernet.decrypt(bytes(sealed)).decode()
        except InvalidToken:
            return None


def open_vault(tx: Db, settings: Settings) -> Vault:
    """The service's vault: under the operator's secret, else under one made and kept in the database."""
    return Vault(settings.secret_key or secrets.ensure(tx, "vault"))

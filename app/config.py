"""Settings: read once from the environment, frozen, each with its meaning.

The table in README.md is held equal to ``FIELDS`` by a test.
"""

from __future__ import annotations

import base64
import dataclasses
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from email.utils import getaddresses
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, urlsplit

import limits

from app.domain.targets import TargetRefused, email_target


class SettingError(Exception):
    """A setting can't be used. The message is one line that names it and says what would be right."""


def _integer(low: int, high: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            raise ValueError(f"must be a whole number from {low} to {high}") from None
        if not low <= value <= high:
            raise ValueError(f"must be from {low} to {high}")
        return value

    return parse


def _switch(text: str) -> bool:
    known = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}
    if text.lower() not in known:
        raise ValueError("must be 1 or 0")
    return known[text.lower()]


def _names(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _origins(text: str) -> tuple[str, ...]:
    origins = tuple(origin.lower().rstrip("/") for origin in _names(text))
    for origin in origins:
        if not re.fullmatch(r"[a-z][a-z0-9+.-]*://[^\s/?#@*]+", origin):
            raise ValueError("must be origins such as https://shop.example, separated by commas; * is none")
    return origins


def _level(text: str) -> str:
    if text.upper() not in ("DEBUG", "INFO", "WARNING", "ERROR"):
        raise ValueError("must be DEBUG, INFO, WARNING or ERROR")
    return text.upper()


def _database(text: str) -> str:
    if not text.startswith(("postgresql://", "postgres://", "postgresql+psycopg2://")):
        raise ValueError("must start with postgresql://")
    return text


def _broker(text: str) -> str:
    if not text.startswith(("redis://", "rediss://", "unix://", "redis+socket://")):
        raise ValueError("must start with redis://, rediss:// or unix://")
    return text


def _rate(text: str) -> str:
    try:
        (rate,) = limits.parse_many(text)
    except ValueError:
        raise ValueError("must be one rate, such as 100/minute") from None
    if rate.amount < 1:
        raise ValueError("must let at least one request through")
    return text


def _mail_server(text: str) -> str:
    parts = urlsplit(text)
    if parts.scheme not in ("smtp", "smtps", "smtp+starttls") or not parts.hostname or not _port_is_good(parts):
        raise ValueError("must be smtp://, smtps:// or smtp+starttls:// and a host, perhaps with :port")
    return text


def _port_is_good(parts: SplitResult) -> bool:
    try:
        return parts.port != 0
    except ValueError:
        return False


def _http_address(text: str) -> str:
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname or not _port_is_good(parts):
        raise ValueError("must be an http:// or https:// address")
    return text


def _base_address(text: str) -> str:
    if not re.fullmatch(r"[^\s?#]+", _http_address(text)):
        raise ValueError("must be an address without white space, query and fragment: links go on from it")
    return text


def _sender(text: str) -> str:
    addresses = [address for _, address in getaddresses([text])]
    try:
        email_target(addresses[0] if len(addresses) == 1 and text.isprintable() else "")
    except TargetRefused:
        raise ValueError("must be one mail address, perhaps with a name: Corrections <ann@example.com>") from None
    return text


def _webhook_secret(text: str) -> str:
    try:
        key = base64.b64decode(text.removeprefix("whsec_"), validate=True)
    except ValueError:
        key = b""
    if not 24 <= len(key) <= 64:
        raise ValueError("must be whsec_ and 24 to 64 bytes in base64")
    return text


def _setting(env: str, meaning: str, default: Any, parse: Callable[[str], Any] = str, secret: bool = False) -> Any:
    return field(default=default, metadata={"env": env, "meaning": meaning, "parse": parse, "secret": secret})


@dataclass(frozen=True, slots=True)
class Settings:
    """All that an operator can set. Times in seconds unless the name says otherwise."""

    database_url: str = _setting("DATABASE_URL", "PostgreSQL 14 or newer, postgresql://…", "", _database, True)
    redis_url: str = _setting("REDIS_URL", "Redis-compatible broker, redis://…", "", _broker, True)
    bootstrap_token: str = _setting(
        "CORRIGENDA_BOOTSTRAP_TOKEN",
        "makes sure at start that tenant `default` has an admin token with it",
        "",
        secret=True,
    )
    secret_key: str = _setting(
        "CORRIGENDA_SECRET_KEY",
        "seals list cursors and stored secrets of endpoints; without it one is made and kept in the database",
        "",
        secret=True,
    )
    host: str = _setting("CORRIGENDA_HOST", "address that the API listens on", "127.0.0.1")
    port: int = _setting("CORRIGENDA_PORT", "port that the API listens on", 8400, _integer(1, 65535))
    api_workers: int = _setting("CORRIGENDA_API_WORKERS", "API processes", 2, _integer(1, 256))
    api_threads: int = _setting(
        "CORRIGENDA_API_THREADS", "requests that each API process works on at once", 4, _integer(1, 256)
    )
    worker_processes: int = _setting("CORRIGENDA_WORKER_PROCESSES", "task processes of a worker", 2, _integer(1, 256))
    max_body_bytes: int = _setting(
        "CORRIGENDA_MAX_BODY_BYTES",
        "largest body (of an import: largest line)",
        10 * 1024 * 1024,
        _integer(1024, 1 << 30),
    )
    statement_timeout_ms: int = _setting(
        "CORRIGENDA_STATEMENT_TIMEOUT_MS",
        "longest statement of the API, in milliseconds",
        10_000,
        _integer(10, 3_600_000),
    )
    lock_timeout_ms: int = _setting(
        "CORRIGENDA_LOCK_TIMEOUT_MS",
        "longest wait of the API for a lock, in milliseconds",
        5_000,
        _integer(10, 3_600_000),
    )
    pool_timeout_ms: int = _setting(
        "CORRIGENDA_POOL_TIMEOUT_MS",
        "longest wait of the API for a connection, in milliseconds",
        5_000,
        _integer(10, 3_600_000),
    )
    cors_origins: tuple[str, ...] = _setting(
        "CORRIGENDA_CORS_ORIGINS", "origins that browsers may call from, separated by commas", (), _origins
    )
    rate_limit: str = _setting(
        "CORRIGENDA_RATE_LIMIT", "requests per token, such as `100/minute`; off when unset", "", _rate
    )
    log_level: str = _setting("CORRIGENDA_LOG_LEVEL", "DEBUG, INFO, WARNING or ERROR", "INFO", _level)
    metrics_dir: str = _setting(
        "CORRIGENDA_METRICS_DIR", "folder in which the processes of one machine share their counters", ""
    )
    max_attempts: int = _setting(
        "CORRIGENDA_MAX_ATTEMPTS", "leases after which a work item is parked", 5, _integer(1, 1000)
    )
    resend_seconds: int = _setting(
        "CORRIGENDA_RESEND_SECONDS",
        "a job sent and not done is sent again after so long (then ever later)",
        30,
        _integer(1, 86_400),
    )
    max_failures: int = _setting(
        "CORRIGENDA_MAX_FAILURES", "failures after which a job is set aside as dead", 20, _integer(1, 1000)
    )
    trail_hours: int = _setting(
        "CORRIGENDA_TRAIL_HOURS", "how long done jobs stay in the outbox", 24, _integer(0, 24 * 365)
    )
    allow_private_targets: bool = _setting(
        "CORRIGENDA_ALLOW_PRIVATE_TARGETS", "1 lets notifications go to private addresses", False, _switch
    )
    data: str = _setting("CORRIGENDA_DATA", "folder in which `corrigenda up` keeps everything", "data")
    base_url: str = _setting(
        "CORRIGENDA_BASE_URL", "address under which people reach this service, for links", "", _base_address
    )
    smtp_url: str = _setting(
        "CORRIGENDA_SMTP_URL",
        "mail server, `smtp://`, `smtps://` or `smtp+starttls://` and `[user:password@]host[:port]`",
        "",
        _mail_server,
        True,
    )
    mail_from: str = _setting("CORRIGENDA_MAIL_FROM", "address that mail comes from", "corrigenda@localhost", _sender)
    secret_overlap_hours: int = _setting(
        "CORRIGENDA_SECRET_OVERLAP_HOURS",
        "how long a rotated webhook secret signs beside the new one",
        24,
        _integer(0, 720),
    )
    delivery_log_days: int = _setting(
        "CORRIGENDA_DELIVERY_LOG_DAYS", "how long ended deliveries stay in the log", 30, _integer(1, 3650)
    )
    improve_url: str = _setting(
        "CORRIGENDA_IMPROVE_URL", "endpoint that takes briefs of what waits for Improve", "", _http_address
    )
    improve_secret: str = _setting(
        "CORRIGENDA_IMPROVE_SECRET",
        "signs them by Standard Webhooks, `whsec_…`; needed with the endpoint",
        "",
        _webhook_secret,
        True,
    )
    improver: str = _setting(
        "CORRIGENDA_IMPROVER",
        "which installed entry point of `corrigenda.improvers` takes the briefs, where there are several",
        "",
    )


FIELDS = dataclasses.fields(Settings)


def read_settings(environ: Mapping[str, str]) -> Settings:
    """Settings from ``environ``; secrets also from ``NAME_FILE``. An empty value counts as unset.

    :raises SettingError: naming the variable and what it must be.
    """
    values: dict[str, Any] = {}
    for item in FIELDS:
        text = _text_of(environ, item.metadata["env"], item.metadata["secret"])
        if text:
            try:
                values[item.name] = item.metadata["parse"](text)
            except ValueError as error:
                raise SettingError(f"{item.metadata['env']} {error}.") from None
    return Settings(**values)


def _text_of(environ: Mapping[str, str], name: str, secret: bool) -> str:
    text = environ.get(name, "").strip()
    path = environ.get(f"{name}_FILE", "").strip() if secret else ""
    if text or not path:
        return text
    try:
        return Path(path).read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingError(f"{name}_FILE can't be read: {getattr(error, 'strerror', None) or error}.") from None

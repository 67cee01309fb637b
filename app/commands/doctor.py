"""``corrigenda doctor``: looks at everything that the service needs, and says what to do about what is wrong."""

from __future__ import annotations

import dataclasses
import os
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import click
from sqlalchemy import Engine

from app.commands.broker import BrokerAway, full_policy
from app.commands.database import address_in
from app.commands.failures import explained
from app.config import Settings, read_settings
from app.data_folder import DataFolder
from app.store import heartbeats, outbox, server
from app.store.engine import Db, create_engine, reading
from app.store.migrate import schema_of
from app.transaction import transaction

_OLDEST_SERVER = 140_000
_SKEW_SECONDS = 2.0
_LAG_SECONDS = 60.0
_RELAY_SECONDS, _SWEEP_SECONDS = 60.0, 300.0
_FREE_BYTES = 512 * 1024 * 1024

Verdict = Literal["good", "warning", "bad"]
_MARKS = {"good": "ok  ", "warning": "note", "bad": "BAD "}


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at. ``text`` says what to do unless it is good."""

    verdict: Verdict
    what: str
    text: str


Findings = Iterator[Finding]


@click.command()
@click.option("--data", type=click.Path(path_type=Path), help="Folder of `corrigenda up` (default: DATABASE_URL).")
@click.option("--only", type=click.Choice(["database", "broker", "relay", "workers"]), help="Look at one thing alone.")
@click.option("--revive", is_flag=True, help="Give jobs that failed for good another try; mend the cause first.")
def doctor(data: Path | None, only: str | None, revive: bool) -> None:
    """Check settings, database, broker, workers and clocks. Exits with 1 if anything is bad."""
    findings = list(_look(data, revive))
    if only:
        findings = [f for f in findings if f.what == only] or [f for f in findings if f.verdict == "bad"]
    bad = 0
    for finding in findings:
        click.echo(f"{_MARKS[finding.verdict]} {finding.what}: {finding.text}")
        bad += finding.verdict == "bad"
    if not only:
        click.echo("Everything that matters is well." if not bad else f"{bad} of these must be mended.")
    raise SystemExit(1 if bad else 0)


def _look(data: Path | None, revive: bool) -> Findings:
    try:
        settings = _addressed(read_settings(os.environ), data)
    except Exception as error:
        line = explained(error)
        if line is None:
            raise
        yield Finding("bad", "settings", line)
        return
    yield from _guarded("settings", lambda: _settings(settings))
    yield from _guarded("database", lambda: _database(settings, revive))
    yield from _broker(settings.redis_url)


def _guarded(what: str, look: Callable[[], Findings]) -> Findings:
    try:
        yield from look()
    except Exception as error:
        line = explained(error)
        if line is None:
            raise
        yield Finding("bad", what, line)


def _addressed(settings: Settings, data: Path | None) -> Settings:
    folder = DataFolder(data or Path(settings.data))
    database_url = address_in(data, settings)
    redis_url = settings.redis_url if data is None else ""
    if not redis_url and folder.redis_url.exists():
        redis_url = folder.redis_url.read_text("utf-8").strip()
    return dataclasses.replace(settings, database_url=database_url, redis_url=redis_url)


def _settings(settings: Settings) -> Findings:
    yield Finding("good", "settings", "readable")
    folder = settings.metrics_dir
    if folder and Path(folder).exists() and shutil.disk_usage(folder).free < _FREE_BYTES:  # the first process makes it
        yield Finding("warning", "disk", f"less than 512 MB are free at {folder}: make room.")


def _database(settings: Settings, revive: bool) -> Findings:
    engine = create_engine(settings.database_url, pool_size=1, application_name="corrigenda-doctor")
    try:
        if revive:
            yield from _revived(engine)
        with reading(engine) as db:
            yield from _server(db)
            schema = schema_of(db)
            if not schema.ready:
                yield Finding("bad", "schema", f"{schema.current or 'none'}: run `corrigenda migrate`.")
                return
            yield Finding("good", "schema", f"revision {schema.current}")
            yield from _processes(db)
            yield from _jobs(db)
    finally:
        engine.dispose()


def _revived(engine: Engine) -> Findings:
    with reading(engine) as db:
        ready = schema_of(db).ready
    if ready:
        with transaction(engine) as tx:
            count = outbox.revive(tx)
        yield Finding("good", "dead jobs", f"{count} get another try")


def _server(db: Db) -> Findings:
    before = time.time()
    found = server.ask(db)
    skew = found.now - (before + time.time()) / 2
    if found.number < _OLDEST_SERVER:
        yield Finding("bad", "database", f"PostgreSQL {found.version} is too old: 14 is the oldest that will do.")
    else:
        yield Finding("good", "database", f"PostgreSQL {found.version} answers")
    connections = f"{found.connections} of {found.most_connections} are in use"
    if found.connections > 0.9 * found.most_connections:
        yield Finding("warning", "connections", f"{connections}: raise max_connections.")
    else:
        yield Finding("good", "connections", connections)
    if abs(skew) > _SKEW_SECONDS:
        yield Finding("warning", "clock", f"the database's is {skew:+.1f} s from this machine's: set both by NTP.")
    else:
        yield Finding("good", "clock", f"within {abs(skew):.1f} s of the database's")


def _processes(db: Db) -> Findings:
    """The relay says itself that it is at work; a sweep, once a minute, shows that beat, broker and a worker are."""
    seen = heartbeats.seconds_since(db)
    yield _seen("relay", seen.get("relay"), _RELAY_SECONDS, "is `corrigenda relay` running?")
    helps = "are `corrigenda worker`, `corrigenda beat` and the broker running?"
    if "sweep" not in seen and outbox.lag(db).seconds < _LAG_SECONDS:
        yield Finding("warning", "workers", f"not seen yet, and nothing waits for them; if that stays so, {helps}")
    else:
        yield _seen("workers", seen.get("sweep"), _SWEEP_SECONDS, helps)


def _seen(what: str, ago: float | None, longest: float, helps: str) -> Finding:
    if ago is None:
        return Finding("bad", what, f"never seen at work: {helps}")
    if ago > longest:
        return Finding("bad", what, f"last seen at work {ago:.0f} s ago: {helps}")
    return Finding("good", what, f"seen at work {ago:.0f} s ago")


def _jobs(db: Db) -> Findings:
    lag = outbox.lag(db)
    if lag.seconds > _LAG_SECONDS:
        yield Finding(
            "bad", "jobs", f"{lag.pending} wait, the oldest for {lag.seconds:.0f} s: see the log of the workers."
        )
    else:
        yield Finding("good", "jobs", f"{lag.pending} wait, the oldest for {lag.seconds:.0f} s")
    if lag.dead:
        yield Finding(
            "bad", "dead jobs", f"{lag.dead} failed for good: mend what outbox.last_error says, then `doctor --revive`."
        )


def _broker(url: str) -> Findings:
    if not url:
        yield Finding("bad", "broker", "REDIS_URL isn't set: recording goes on, what follows waits.")
        return
    try:
        policy = full_policy(url)
    except BrokerAway as why:
        yield Finding("bad", "broker", f"can't be reached ({why}): recording goes on, what follows waits.")
        return
    if policy not in ("noeviction", ""):
        yield Finding("warning", "broker", f"maxmemory-policy is {policy}: set it to noeviction, or jobs come late.")
    else:
        yield Finding("good", "broker", "answers")

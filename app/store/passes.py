"""How far a subject's accepted events are applied: a pass over the corrections that they may concern, in batches.

A pass walks over the corrections that have a verdict which the events make count, or that the events name; no other can
be fixed or reopened by them. Several workers share one: each takes a batch, skipping those in others' hands.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from app.domain.running import Decides
from app.store.engine import Db
from app.store.running import Keys

_KEYS = "tenant_id = %(tenant)s AND project_id = %(project)s AND subject_kind = %(kind)s AND subject_id = %(id)s"


@dataclass(frozen=True, slots=True)
class Batch:
    """Corrections after ``after_id``, up to ``last_id``; events to decide on after ``from_seq``, up to ``to_seq``."""

    after_id: str
    last_id: str
    from_seq: int
    to_seq: int


@dataclass(frozen=True, slots=True)
class Progress:
    """How a subject stands in a project. ``to_seq``: of the pass that is under way, if there is one."""

    accepted_seq: int
    applied_seq: int
    to_seq: int | None
    handed_to: str
    handed_out: bool


@dataclass(frozen=True, slots=True)
class Deciding:
    """An accepted event that decides on corrections. ``test_run_id`` when it is a test run."""

    seq: int
    decides: Decides
    version: str
    test_run_id: str | None
    resolves_id: str | None


_TAKE = f"""
SELECT b.after_id, b.last_id, p.from_seq, p.to_seq
  FROM (SELECT * FROM pass_batches WHERE {_KEYS} ORDER BY after_id LIMIT 1 FOR UPDATE SKIP LOCKED) b
  JOIN passes p USING (tenant_id, project_id, subject_kind, subject_id)
"""

_LOCK = f"SELECT true FROM running WHERE {_KEYS} FOR UPDATE"

# A statement of its own: it must see what the lock's last holder committed.
_PROGRESS = """
SELECT w.accepted_seq, w.applied_seq, p.to_seq, coalesce(p.handed_to, ''), coalesce(p.handed_out, false)
  FROM running w LEFT JOIN passes p USING (tenant_id, project_id, subject_kind, subject_id)
 WHERE w.tenant_id = %(tenant)s AND w.project_id = %(project)s AND w.subject_kind = %(kind)s
   AND w.subject_id = %(id)s
"""

_EVENTS = f"""
SELECT seq, decides, version, CASE WHEN kind = 'test-run' THEN source_id END AS test_run_id, resolves_id
  FROM accepted_events WHERE {_KEYS} AND seq > %(from)s AND seq <= %(to)s AND decides <> 'none' ORDER BY seq
"""

# The corrections of one event, each once, in the order of their ids. Its branches that can't apply cost nothing.
CANDIDATES = f"""
SELECT t.correction_id FROM test_results t
 WHERE %(decides)s = 'all' AND {_KEYS.replace("tenant_id", "t.tenant_id")} AND t.version = %(version)s
   AND t.correction_id > %(after)s AND t.correction_id <= %(last)s AND t.seq <= %(seq)s
 UNION
SELECT t.correction_id FROM test_results t
 WHERE t.tenant_id = %(tenant)s AND t.test_run_id = %(test_run)s
   AND t.correction_id > %(after)s AND t.correction_id <= %(last)s
 UNION
SELECT x.correction_id FROM resolved_corrections x
 WHERE x.tenant_id = %(tenant)s AND x.source_id = %(resolves)s AND x.project_id = %(project)s
   AND x.correction_id > %(after)s AND x.correction_id <= %(last)s
"""

# Where the next batch ends: the %(count)s-th correction that any of the events concerns. Each looks no further.
_NEXT = f"""
WITH events AS MATERIALIZED ({_EVENTS}), concerned AS (
    SELECT c.correction_id FROM (SELECT DISTINCT version FROM events WHERE decides = 'all') e CROSS JOIN LATERAL (
        SELECT DISTINCT t.correction_id FROM test_results t
         WHERE {_KEYS.replace("tenant_id", "t.tenant_id")} AND t.version = e.version AND t.correction_id > %(after)s
         ORDER BY t.correction_id LIMIT %(count)s) c
    UNION
    SELECT c.correction_id FROM events e CROSS JOIN LATERAL (
        SELECT t.correction_id FROM test_results t
         WHERE t.tenant_id = %(tenant)s AND t.test_run_id = e.test_run_id AND t.correction_id > %(after)s
         ORDER BY t.correction_id LIMIT %(count)s) c
    UNION
    SELECT c.correction_id FROM events e CROSS JOIN LATERAL (
        SELECT x.correction_id FROM resolved_corrections x
         WHERE x.tenant_id = %(tenant)s AND x.source_id = e.resolves_id AND x.project_id = %(project)s
           AND x.correction_id > %(after)s
         ORDER BY x.correction_id LIMIT %(count)s) c
)
SELECT max(correction_id), count(*)
  FROM (SELECT correction_id FROM concerned ORDER BY correction_id LIMIT %(count)s) next
"""

_HOLD = f"""
WITH events AS MATERIALIZED ({_EVENTS}), concerned AS (
    SELECT t.correction_id FROM test_results t
     WHERE {_KEYS.replace("tenant_id", "t.tenant_id")}
       AND t.version IN (SELECT version FROM events WHERE decides = 'all')
       AND t.correction_id > %(after)s AND t.correction_id <= %(last)s
    UNION
    SELECT t.correction_id FROM events e JOIN test_results t ON t.test_run_id = e.test_run_id
     WHERE t.tenant_id = %(tenant)s AND t.correction_id > %(after)s AND t.correction_id <= %(last)s
    UNION
    SELECT x.correction_id FROM events e JOIN resolved_corrections x ON x.source_id = e.resolves_id
     WHERE x.tenant_id = %(tenant)s AND x.project_id = %(project)s
       AND x.correction_id > %(after)s AND x.correction_id <= %(last)s
)
SELECT c.id FROM concerned k JOIN corrections c ON c.tenant_id = %(tenant)s AND c.id = k.correction_id
 WHERE c.unregistered_at IS NULL ORDER BY c.id FOR NO KEY UPDATE OF c
"""


def take(db: Db, keys: Keys) -> Batch | None:
    """A batch that is in nobody's hands; held until the transaction ends."""
    row = db.row(_TAKE, keys)
    return None if row is None else Batch(*row)


def finish(db: Db, keys: Keys, batch: Batch) -> None:
    """The batch is done."""
    db.run(f"DELETE FROM pass_batches WHERE {_KEYS} AND after_id = %(after)s", keys | {"after": batch.after_id})


def lock(db: Db, keys: Keys) -> Progress | None:
    """How the subject stands in the project. Nobody hands out, begins or closes there until the transaction ends."""
    db.run(_LOCK, keys)
    row = db.row(_PROGRESS, keys)
    return None if row is None else Progress(*row)


def deciding(db: Db, keys: Keys, from_seq: int, to_seq: int) -> list[Deciding]:
    """The events after ``from_seq``, up to ``to_seq``, that decide on corrections, in their order."""
    return [Deciding(*row) for row in db.rows(_EVENTS, {**keys, "from": from_seq, "to": to_seq})]


def hold(db: Db, keys: Keys, batch: Batch) -> None:
    """Hold the live corrections of the batch that any of its events may concern, in the order of their ids."""
    values = {"from": batch.from_seq, "to": batch.to_seq, "after": batch.after_id, "last": batch.last_id}
    db.run(_HOLD, {**keys, **values})


def begin(db: Db, keys: Keys, from_seq: int, to_seq: int) -> None:
    """Begin a pass for the events after ``from_seq``, up to ``to_seq``."""
    db.run(
        "INSERT INTO passes (tenant_id, project_id, subject_kind, subject_id, from_seq, to_seq)"
        " VALUES (%(tenant)s, %(project)s, %(kind)s, %(id)s, %(from)s, %(to)s)",
        {**keys, "from": from_seq, "to": to_seq},
    )


def next_end(db: Db, keys: Keys, from_seq: int, to_seq: int, after_id: str, count: int) -> tuple[str | None, int]:
    """The last of the next ``count`` corrections after ``after_id`` that the events may concern; how many there are."""
    row = db.row(_NEXT, {**keys, "from": from_seq, "to": to_seq, "after": after_id, "count": count})
    return row[:2] if row is not None else (None, 0)


def hand_out(db: Db, keys: Keys, after_id: str, ends: Sequence[str], handed_out: bool) -> None:
    """Add the batches that follow each other from ``after_id`` to each of ``ends``. ``handed_out``: these are all."""
    starts = [after_id, *ends][: len(ends)]
    db.run(
        "INSERT INTO pass_batches (tenant_id, project_id, subject_kind, subject_id, after_id, last_id)"
        " SELECT %(tenant)s, %(project)s, %(kind)s, %(id)s, b.after_id, b.last_id"
        " FROM unnest(%(starts)s::text[], %(ends)s::text[]) AS b(after_id, last_id)",
        {**keys, "starts": starts, "ends": list(ends)},
    )
    db.run(
        f"UPDATE passes SET handed_to = %(to)s, handed_out = %(out)s WHERE {_KEYS}",
        {**keys, "to": ends[-1] if ends else after_id, "out": handed_out},
    )


def in_hand(db: Db, keys: Keys) -> bool:
    """Whether any batch is handed out and not done."""
    return bool(db.value(f"SELECT EXISTS (SELECT FROM pass_batches WHERE {_KEYS})", keys))


_NOTE = """
INSERT INTO pass_notices AS n (tenant_id, project_id, subject_kind, subject_id, event, total, first_ids, first_seqs)
VALUES (%(tenant)s, %(project)s, %(kind)s, %(id)s, %(event)s, %(total)s, %(ids)s::text[], %(seqs)s::bigint[])
ON CONFLICT ON CONSTRAINT pass_notices_pk DO UPDATE
   SET total = n.total + excluded.total, first_ids = (n.first_ids || excluded.first_ids)[1:%(most)s],
       first_seqs = (n.first_seqs || excluded.first_seqs)[1:%(most)s]
"""

MOST_NAMED = 100
"""Corrections that a pass names of each event; the others it counts."""


def note(db: Db, keys: Keys, happened: Mapping[str, Sequence[tuple[str, int]]]) -> None:
    """Note what is to be told when the pass ends: per event the corrections with the ``seq`` that decided on each.

    Others wait here for this transaction to end: do it last.
    """
    for event in sorted(happened):
        first = happened[event][:MOST_NAMED]
        values = {"event": event, "total": len(happened[event]), "most": MOST_NAMED}
        lists = {"ids": [one[0] for one in first], "seqs": [one[1] for one in first]}
        db.run(_NOTE, {**keys, **values, **lists})


@dataclass(frozen=True, slots=True)
class Happened:
    """How often an event happened in a pass, and the first of it: corrections, each with the deciding ``seq``."""

    event: str
    total: int
    first: tuple[tuple[str, int], ...]


def close(db: Db, keys: Keys, to_seq: int) -> list[Happened]:
    """The events up to ``to_seq`` are applied to all corrections: end their pass, if there is one. What happened."""
    rows = db.rows(f"SELECT event, total, first_ids, first_seqs FROM pass_notices WHERE {_KEYS} ORDER BY event", keys)
    db.run(f"DELETE FROM passes WHERE {_KEYS}", keys)
    db.run(f"UPDATE running SET applied_seq = %(to)s WHERE {_KEYS}", {**keys, "to": to_seq})
    return [Happened(event, total, tuple(zip(ids, seqs, strict=True))) for event, total, ids, seqs in rows]

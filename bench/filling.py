"""The data that benchmarks run on: runs with 2 KB outputs, and corrections of them."""

from __future__ import annotations

import contextlib

import psycopg2

from bench.stage import TENANT, Database

PROJECTS, AGENTS, VERSIONS, GROUPS, PEOPLE = 10, 20, 5, 5, 50

_SMALL = """
INSERT INTO projects (tenant_id, id, org_id, created_at, updated_at)
SELECT %(tenant)s, 'project-' || n, 'org-' || n %% 2, now(), now() FROM generate_series(0, %(projects)s - 1) n;
INSERT INTO subjects (tenant_id, kind, id)
SELECT %(tenant)s, 'agent', 'agent-' || n FROM generate_series(0, %(agents)s - 1) n;
INSERT INTO running (tenant_id, project_id, subject_kind, subject_id)
SELECT %(tenant)s, 'project-' || p, 'agent', 'agent-' || a
  FROM generate_series(0, %(projects)s - 1) p, generate_series(0, %(agents)s - 1) a;
INSERT INTO corrector_groups (tenant_id, id, name, weight, scope_kind, created_at, updated_at)
SELECT %(tenant)s, 'group-' || n, 'group ' || n, 2, 'tenant', now(), now() FROM generate_series(0, %(groups)s - 1) n;
"""

# Everything about row n follows from n, by numbers without common factors, so that any two filters are independent.
_RUNS = """
INSERT INTO runs (tenant_id, id, project_id, subject_kind, subject_id, subject_version, status, conversation_id,
                  arrived_at, ended_at, updated_at, content_sha256, input, output)
SELECT %(tenant)s, 'run-' || n, 'project-' || n %% %(projects)s, 'agent', 'agent-' || (n / 7) %% %(agents)s,
       '1.' || (n / 11) %% %(versions)s || '.0', 'completed', 'conversation-' || n / 4, now(), now(), now(),
       sha256(n::text::bytea), '{"message":"question ' || n || '"}',
       '{"answer":"' || (SELECT string_agg(md5(n || ' ' || i), ' ') FROM generate_series(1, 62) i) || '"}'
  FROM generate_series(%(low)s::bigint, %(high)s - 1) n
"""

_CORRECTIONS = """
INSERT INTO corrections (tenant_id, id, project_id, run_id, subject_kind, subject_id, subject_version, decisions,
                         should_call, answer, why, corrector_group_id, expert, made_by_kind, made_by_id,
                         participant_id, participant_sha256, end_user, status, sorted_to, sorted_by_kind, sorted_at,
                         fixed_how, fixed_at, created_at, updated_at, unregistered_at)
SELECT r.tenant_id, uuidv7(n * interval '1 second' - interval '400 days')::text, r.project_id, r.id, r.subject_kind,
       r.subject_id, r.subject_version, 'wrong',
       '[{"tool":"update_reservation","args":{"reservation_id":"' || n || '","cabin":"economy"}}]', NULL,
       'The policy says otherwise, see paragraph ' || n,
       CASE WHEN n %% 4 = 0 THEN 'group-' || (n / 4) %% %(groups)s END, n %% 8 = 0,
       'user', 'person-' || (n / %(corrected)s * 7 + n %% %(corrected)s) %% %(people)s,
       CASE WHEN x.app THEN 'participant-' || n END,
       CASE WHEN x.app THEN sha256(('participant-' || n)::bytea) ELSE '' END, x.app AND n %% 8 <> 0, x.status, x.queue,
       CASE WHEN x.queue IS NOT NULL THEN 'rule' END, CASE WHEN x.queue IS NOT NULL THEN x.at END,
       CASE WHEN x.status = 'fixed' THEN 'recorded-right' END, CASE WHEN x.status = 'fixed' THEN x.at END, x.at, x.at,
       CASE WHEN x.status = 'removed' THEN x.at END
  FROM generate_series(%(low)s::bigint, %(high)s - 1) n
  CROSS JOIN LATERAL (SELECT (ARRAY['with-owner', 'open', 'fixed', 'being-fixed', 'fixed', 'wont-fix', 'fixed', 'open',
                                    'with-owner', 'fixed', 'removed', 'open', 'fixed'])[1 + n %% 13] AS status) s
  CROSS JOIN LATERAL (SELECT s.status, n %% 5 = 0 AS app, now() - interval '400 days' + n * interval '1 second' AS at,
                             CASE WHEN s.status = 'with-owner' THEN 'owner'
                                  WHEN s.status = 'fixed' OR n %% 17 = 0 THEN NULL
                                  WHEN n %% 3 = 0 THEN 'developer' ELSE 'improve' END AS queue) x
  JOIN runs r ON r.tenant_id = %(tenant)s AND r.id = 'run-' || (n * 7919) %% %(corrected)s
"""

_COPIES = """
INSERT INTO copies (tenant_id, run_id, project_id, subject_kind, subject_id, subject_version, input, output,
                    captured_at, taken_at, context, context_at)
SELECT r.tenant_id, r.id, r.project_id, r.subject_kind, r.subject_id, r.subject_version, r.input, r.output,
       now(), now(), '{"history":[]}', now()
  FROM runs r WHERE r.tenant_id = %(tenant)s AND EXISTS (
       SELECT FROM corrections c WHERE c.tenant_id = r.tenant_id AND c.run_id = r.id)
"""


def fill(database: Database, runs: int, corrections: int, fresh: int = 0) -> None:
    """Put in so many rows. Runs are numbered from 0; the last ``fresh`` of them, beyond ``runs``, have none."""
    constants = {"tenant": TENANT, "projects": PROJECTS, "agents": AGENTS, "versions": VERSIONS, "groups": GROUPS,
                 "people": PEOPLE, "corrected": runs}  # fmt: skip
    with contextlib.closing(psycopg2.connect(database.url)) as connection:
        connection.autocommit = True
        cursor = connection.cursor()
        cursor.execute("SET synchronous_commit = off")
        cursor.execute(_SMALL, constants)
        _in_steps(cursor, _RUNS, runs + fresh, constants)
        cursor.execute("ANALYZE runs")
        with without_indexes(cursor, "corrections"):
            _in_steps(cursor, _CORRECTIONS, corrections, constants)
        cursor.execute(_COPIES, constants)
        cursor.execute("VACUUM ANALYZE")
        cursor.execute("CHECKPOINT")


def _in_steps(cursor: psycopg2.extensions.cursor, sql: str, count: int, constants: dict[str, object]) -> None:
    for low in range(0, count, 50_000):
        cursor.execute(sql, constants | {"low": low, "high": min(low + 50_000, count)})


@contextlib.contextmanager
def without_indexes(cursor: psycopg2.extensions.cursor, table: str):  # type: ignore[no-untyped-def]
    """Build the indexes of ``table`` once, after the block, and not row by row."""
    cursor.execute(
        "SELECT i.indexdef, i.indexname FROM pg_indexes i WHERE i.tablename = %s"
        " AND NOT EXISTS (SELECT FROM pg_constraint k WHERE k.conname = i.indexname)",
        (table,),
    )
    definitions = cursor.fetchall()
    for _, name in definitions:
        cursor.execute(f'DROP INDEX "{name}"')
    yield
    cursor.execute("SET maintenance_work_mem = '512MB'")
    for definition, _ in definitions:
        cursor.execute(definition)

"""Every column that can hold text has been thought of: an erasure clears it, or it never holds what people wrote."""

from __future__ import annotations

from sqlalchemy import Engine

from app.store.engine import reading

CLEARED = {
    "runs": "segments input output messages retrieved recalled session_approval calls content_sha256",
    "copies": "input output context segments",
    "corrections": "should_say why participant_id participant_sha256 sorted_reason status_note_text",
    "correction_history": "reason",
    "ended_leases": "reason",
    "test_results": "detail",
    "idempotency_answers": "body body_sha256",
    "erasures": "participant_sha256",
    "participant_tokens": "participant_id participant_sha256",
    "spans": "content",
    "traces": "content_sha256",
}
"""What an erasure clears, where it is of what is erased."""

STATE = {
    "runs": "status scope",
    "corrections": "decisions answer status sorted_to fixed_how reopened_how",
    "correction_history": "from_value to_value how",
    "work_items": "queue state turns lease_ended ended_reason lease_token_sha256",
    "ended_leases": "how token_sha256",
    "accepted_events": "how decides",
    "deploys": "how",
    "running": "how",
    "subjects": "name",
    "test_runs": "source",
    "test_results": "verdict",
    "passes": "handed_to",
    "pass_notices": "event first_ids first_seqs",
    "outbox": "job last_error",
    "erasures": "phase answers_after",
    "alembic_version": "version_num",
    "heartbeats": "name",
    "service_secrets": "name value",
    "tokens": "sha256 name role grants reviewer_role",
    "participant_tokens": "sha256 made_with",
    "projects": "name",
    "corrector_groups": "name description assertable_by",
    "notification_endpoints": "target target_sealed target_sha256 events secret_sealed"
    " former_secret_sealed ended_reason",
    "delivery_words": "word_sha256 type",
    "delivery_attempts": "error",
    "deliveries": "type status",
    "notifications": "type event_key",
    "idempotency_answers": "key_sha256 content_type headers",
}
"""States, names that admins give, hashes of random or whole things, and words of our own."""

IDS_AND_STATES = {
    "notifications": "data",
    "deliveries": "body",
    "delivery_words": "body",
    "outbox": "ids",
}
"""Written by us, of ids and states alone: see ``app/domain/messages.py`` and ``app/domain/jobs.py``."""

VERDICTS = {"corrections": "should_call must_not_call items link"}
"""What was said of the run's decisions and items, and where the fix is: verdicts stay."""

_COLUMNS = """
SELECT c.table_name, c.column_name FROM information_schema.columns c
  JOIN information_schema.tables t USING (table_schema, table_name)
 WHERE c.table_schema = 'public' AND t.table_type = 'BASE TABLE'
   AND c.data_type IN ('text', 'character varying', 'character', 'bytea', 'json', 'jsonb', 'ARRAY', 'USER-DEFINED')
   AND (c.column_name !~ '(^|_)(id|kind|version|replay_of|superseded_by)$' OR c.column_name ~ 'participant')
"""
"""All but ids, kinds and versions of things and principals, which are no words; a participant's are."""


def decided() -> set[tuple[str, str]]:
    kinds = (CLEARED, STATE, IDS_AND_STATES, VERDICTS)
    return {(table, name) for each in kinds for table, names in each.items() for name in names.split()}


def test_every_column_of_text_was_decided_on(engine: Engine) -> None:
    with reading(engine) as db:
        columns = set(db.rows(_COLUMNS))
    assert columns >= decided(), "there is no such column any more"
    unknown = sorted(columns - decided())
    assert not unknown, f"Can what is erased stand there? Clear it in app/store/clearing.py, and say so here: {unknown}"

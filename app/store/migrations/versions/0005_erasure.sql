-- Erasing people's words, and purging what is kept for some time only. docs/decisions/erasure.md tells why.

-- Which other runs a copy's context holds something of. place: among its history's, whose messages it has so many of.
CREATE TABLE copy_sources (
    tenant_id text NOT NULL,
    run_id text NOT NULL,
    source_run_id text NOT NULL,
    place integer NOT NULL,
    messages integer NOT NULL,
    CONSTRAINT copy_sources_pk PRIMARY KEY (tenant_id, run_id, source_run_id),
    CONSTRAINT copy_sources_copy_fk FOREIGN KEY (tenant_id, run_id) REFERENCES copies ON DELETE CASCADE
);
CREATE INDEX copy_sources_source_ix ON copy_sources (tenant_id, source_run_id);
CREATE INDEX copies_conversation_ix ON copies (tenant_id, conversation_id) WHERE conversation_id IS NOT NULL;

-- Of a participant the hash alone, and that only until the erasure is done. phase: what its next step does.
-- answers_after: up to which key the kept answers were looked through.
CREATE TABLE erasures (
    tenant_id text NOT NULL CONSTRAINT erasures_tenant_fk REFERENCES tenants,
    id text NOT NULL,
    kind text NOT NULL CONSTRAINT erasures_kind_ck CHECK (kind IN ('run', 'conversation', 'participant')),
    project_id text,
    run_id text,
    conversation_id text,
    participant_sha256 bytea,
    by_kind text NOT NULL,
    by_id text NOT NULL,
    asked_at timestamptz NOT NULL,
    phase text NOT NULL DEFAULT 'list'
        CONSTRAINT erasures_phase_ck CHECK (phase IN ('list', 'clear', 'contexts', 'answers', 'done')),
    answers_after bytea NOT NULL DEFAULT '',
    done_at timestamptz(3),
    runs integer NOT NULL DEFAULT 0,
    copies integer NOT NULL DEFAULT 0,
    contexts integer NOT NULL DEFAULT 0,
    corrections integer NOT NULL DEFAULT 0,
    answers integer NOT NULL DEFAULT 0,
    CONSTRAINT erasures_pk PRIMARY KEY (tenant_id, id),
    CONSTRAINT erasures_project_fk FOREIGN KEY (tenant_id, project_id) REFERENCES projects,
    CONSTRAINT erasures_forgotten_ck CHECK (phase <> 'done' OR participant_sha256 IS NULL)
);
CREATE INDEX erasures_running_ix ON erasures (asked_at) WHERE phase <> 'done';

-- What an erasure under way has to clear (runs, corrections), and copies whose contexts it took something out of.
CREATE TABLE erasure_items (
    tenant_id text NOT NULL,
    erasure_id text NOT NULL,
    kind text NOT NULL CONSTRAINT erasure_items_kind_ck CHECK (kind IN ('run', 'copy', 'correction')),
    id text NOT NULL,
    cleared boolean NOT NULL DEFAULT false,
    CONSTRAINT erasure_items_pk PRIMARY KEY (tenant_id, erasure_id, id, kind),
    CONSTRAINT erasure_items_erasure_fk FOREIGN KEY (tenant_id, erasure_id) REFERENCES erasures ON DELETE CASCADE
);
CREATE INDEX erasure_items_waiting_ix ON erasure_items (tenant_id, erasure_id, id) WHERE NOT cleared;

-- All corrections of a participant, superseded ones too.
CREATE INDEX corrections_of_participant_ix ON corrections (tenant_id, participant_sha256, id)
    WHERE participant_id IS NOT NULL;

-- What retention looks at: runs that ended and aren't erased (those stay, so that they can't come back), and
-- corrections that were superseded or removed.
CREATE INDEX runs_ended_ix ON runs (tenant_id, project_id, ended_at) WHERE ended_at IS NOT NULL AND erased_at IS NULL;
CREATE INDEX corrections_ended_ix ON corrections (tenant_id, project_id, unregistered_at)
    WHERE unregistered_at IS NOT NULL;

-- As lock_run, but without waiting: says whether it got the lock.
CREATE FUNCTION try_lock_run(tenant text, run text) RETURNS boolean LANGUAGE sql AS $$
    SELECT pg_try_advisory_xact_lock(hashtextextended('run ' || tenant || ' ' || run, 0))
$$;

-- The planner's samples of columns would keep words that were erased, until the table is next analyzed: none are taken
-- of columns that no condition looks into.
ALTER TABLE runs ALTER segments SET STATISTICS 0, ALTER input SET STATISTICS 0, ALTER output SET STATISTICS 0,
    ALTER retrieved SET STATISTICS 0, ALTER recalled SET STATISTICS 0, ALTER session_approval SET STATISTICS 0,
    ALTER calls SET STATISTICS 0, ALTER messages SET STATISTICS 0, ALTER content_sha256 SET STATISTICS 0;
ALTER TABLE copies ALTER input SET STATISTICS 0, ALTER output SET STATISTICS 0, ALTER context SET STATISTICS 0,
    ALTER segments SET STATISTICS 0;
ALTER TABLE corrections ALTER why SET STATISTICS 0, ALTER should_say SET STATISTICS 0,
    ALTER status_note_text SET STATISTICS 0, ALTER sorted_reason SET STATISTICS 0, ALTER participant_id SET STATISTICS 0;
ALTER TABLE correction_history ALTER reason SET STATISTICS 0;
ALTER TABLE ended_leases ALTER reason SET STATISTICS 0;
ALTER TABLE test_results ALTER detail SET STATISTICS 0;
ALTER TABLE idempotency_answers ALTER body SET STATISTICS 0;

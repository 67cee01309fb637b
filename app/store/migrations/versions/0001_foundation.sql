-- Everything that a correction is, from the token that records it to the work that follows.
-- Every key starts with the tenant. JSON that must come back as it came is kept as text.
-- Ids of any characters may be 256 code points (1,024 bytes); what has no limit is indexed by its hash.

CREATE TABLE service_secrets (
    name text CONSTRAINT service_secrets_pk PRIMARY KEY,
    value text NOT NULL
);

CREATE TABLE tenants (
    id text CONSTRAINT tenants_pk PRIMARY KEY,
    created_at timestamptz(3) NOT NULL
);

CREATE TABLE tokens (
    tenant_id text NOT NULL CONSTRAINT tokens_tenant_fk REFERENCES tenants,
    id text NOT NULL,
    sha256 bytea NOT NULL,
    name text NOT NULL,
    principal_kind text NOT NULL CONSTRAINT tokens_principal_kind_ck CHECK (principal_kind IN ('user', 'service')),
    principal_id text NOT NULL,
    role text NOT NULL CONSTRAINT tokens_role_ck CHECK (role IN ('admin', 'member')),
    grants text NOT NULL DEFAULT '[]',
    reviewer_role text CONSTRAINT tokens_reviewer_role_ck CHECK (reviewer_role IN ('standard', 'senior', 'admin')),
    created_at timestamptz(3) NOT NULL,
    created_by_kind text,
    created_by_id text,
    expires_at timestamptz(3),
    revoked_at timestamptz(3),
    CONSTRAINT tokens_pk PRIMARY KEY (tenant_id, id),
    CONSTRAINT tokens_sha256_uq UNIQUE (sha256)
);
CREATE INDEX tokens_newest_ix ON tokens (tenant_id, created_at DESC, id DESC);

-- For an end user's browser: good for one participant's correction of one run, as long as the token that made it.
CREATE TABLE participant_tokens (
    tenant_id text NOT NULL,
    id text NOT NULL,
    sha256 bytea NOT NULL,
    made_with text NOT NULL,
    run_id text NOT NULL,
    participant_id text NOT NULL,
    participant_sha256 bytea NOT NULL,
    created_at timestamptz(3) NOT NULL,
    expires_at timestamptz(3) NOT NULL,
    CONSTRAINT participant_tokens_pk PRIMARY KEY (tenant_id, id),
    CONSTRAINT participant_tokens_sha256_uq UNIQUE (sha256),
    CONSTRAINT participant_tokens_made_with_fk FOREIGN KEY (tenant_id, made_with) REFERENCES tokens
);
CREATE INDEX participant_tokens_expiry_ix ON participant_tokens (expires_at);
CREATE INDEX participant_tokens_participant_ix ON participant_tokens (tenant_id, participant_sha256);

CREATE TABLE projects (
    tenant_id text NOT NULL CONSTRAINT projects_tenant_fk REFERENCES tenants,
    id text NOT NULL,
    name text,
    org_id text,
    retention_runs_days integer,
    retention_tombstones_days integer,
    created_at timestamptz(3) NOT NULL,
    updated_at timestamptz(3) NOT NULL,
    CONSTRAINT projects_pk PRIMARY KEY (tenant_id, id)
);
CREATE INDEX projects_org_ix ON projects (tenant_id, org_id) WHERE org_id IS NOT NULL;
CREATE INDEX projects_newest_ix ON projects (tenant_id, created_at DESC, id DESC);

-- An agent or a flow, known since its first run, pin, deploy or PUT. Latest is what the newest deploy made it.
CREATE TABLE subjects (
    tenant_id text NOT NULL,
    kind text NOT NULL CONSTRAINT subjects_kind_ck CHECK (kind IN ('agent', 'flow')),
    id text NOT NULL,
    name text,
    created_at timestamptz(3) NOT NULL DEFAULT date_trunc('milliseconds', clock_timestamp()),
    registered_at timestamptz(3),
    updated_at timestamptz(3),
    latest_version text,
    latest_at timestamptz(3),
    latest_deploy_id text,
    CONSTRAINT subjects_pk PRIMARY KEY (tenant_id, kind, id)
);
CREATE INDEX subjects_newest_ix ON subjects (tenant_id, kind, created_at DESC, id DESC);

CREATE TABLE subject_owners (
    tenant_id text NOT NULL,
    kind text NOT NULL,
    id text NOT NULL,
    position integer NOT NULL,
    owner_kind text NOT NULL CONSTRAINT subject_owners_owner_kind_ck CHECK (owner_kind IN ('user', 'service')),
    owner_id text NOT NULL,
    CONSTRAINT subject_owners_pk PRIMARY KEY (tenant_id, kind, id, position),
    CONSTRAINT subject_owners_subject_fk FOREIGN KEY (tenant_id, kind, id) REFERENCES subjects
);

-- What each project runs of each subject that it knows, and how far the subject's accepted events reach.
CREATE TABLE running (
    tenant_id text NOT NULL,
    project_id text NOT NULL,
    subject_kind text NOT NULL,
    subject_id text NOT NULL,
    version text,
    how text CONSTRAINT running_how_ck CHECK (how IN ('pin', 'went-back', 'unpin', 'latest')),
    by_kind text,
    by_id text,
    at timestamptz(3),
    pinned boolean NOT NULL DEFAULT false,
    accepted_seq bigint NOT NULL DEFAULT 0,
    applied_seq bigint NOT NULL DEFAULT 0,
    CONSTRAINT running_pk PRIMARY KEY (tenant_id, project_id, subject_kind, subject_id),
    CONSTRAINT running_project_fk FOREIGN KEY (tenant_id, project_id) REFERENCES projects,
    CONSTRAINT running_subject_fk FOREIGN KEY (tenant_id, subject_kind, subject_id) REFERENCES subjects
);
CREATE INDEX running_subject_ix ON running (tenant_id, subject_kind, subject_id);

CREATE TABLE runs (
    tenant_id text NOT NULL,
    id text NOT NULL,
    project_id text NOT NULL,
    subject_kind text NOT NULL CONSTRAINT runs_subject_kind_ck CHECK (subject_kind IN ('agent', 'flow')),
    subject_id text NOT NULL,
    subject_version text NOT NULL,
    status text NOT NULL CONSTRAINT runs_status_ck
        CHECK (status IN ('running', 'suspended', 'completed', 'failed', 'cancelled')),
    conversation_id text,
    parent_run_id text,
    node_id text,
    scope text,
    replay_of text,
    started_at timestamptz,
    finished_at timestamptz,
    arrived_at timestamptz NOT NULL,
    arrival bigint GENERATED ALWAYS AS IDENTITY,
    ended_at timestamptz,
    updated_at timestamptz NOT NULL,
    erased_at timestamptz(3),
    content_sha256 bytea NOT NULL,
    segments text,
    input text,
    output text,
    messages text,
    retrieved text,
    recalled text,
    session_approval text,
    calls text,
    CONSTRAINT runs_pk PRIMARY KEY (tenant_id, id),
    CONSTRAINT runs_project_fk FOREIGN KEY (tenant_id, project_id) REFERENCES projects
);
CREATE INDEX runs_newest_ix ON runs (tenant_id, arrived_at DESC, id DESC);
CREATE INDEX runs_project_ix ON runs (tenant_id, project_id, arrived_at DESC, id DESC);
CREATE INDEX runs_subject_ix ON runs (tenant_id, subject_kind, subject_id, arrived_at DESC, id DESC);
CREATE INDEX runs_conversation_ix ON runs (tenant_id, conversation_id, arrived_at DESC, id DESC)
    WHERE conversation_id IS NOT NULL;
CREATE INDEX runs_not_completed_ix ON runs (tenant_id, status, arrived_at DESC, id DESC) WHERE status <> 'completed';
CREATE INDEX runs_turns_ix ON runs (tenant_id, conversation_id, (coalesce(started_at, arrived_at)) DESC, arrival DESC)
    WHERE conversation_id IS NOT NULL AND messages IS NOT NULL;
CREATE INDEX runs_parent_ix ON runs (tenant_id, parent_run_id) WHERE parent_run_id IS NOT NULL;
-- The erased ones, so that a test set is told from few rows which of its runs to leave out.
CREATE INDEX runs_erased_ix ON runs (tenant_id, id) WHERE erased_at IS NOT NULL;

-- A corrected run's input and output as they came, and what a replay needs besides (added by a worker).
CREATE TABLE copies (
    tenant_id text NOT NULL,
    run_id text NOT NULL,
    project_id text NOT NULL,
    subject_kind text NOT NULL,
    subject_id text NOT NULL,
    subject_version text NOT NULL,
    conversation_id text,
    input text,
    output text,
    segments text NOT NULL DEFAULT '[]',
    replay_of text,
    captured_at timestamptz(3) NOT NULL,
    taken_at timestamptz NOT NULL,
    context text,
    context_at timestamptz(3),
    erased_at timestamptz(3),
    CONSTRAINT copies_pk PRIMARY KEY (tenant_id, run_id)
);
CREATE INDEX copies_captured_ix ON copies (tenant_id, captured_at DESC, run_id DESC);
CREATE INDEX copies_without_context_ix ON copies (taken_at) WHERE context_at IS NULL;

CREATE TABLE corrector_groups (
    tenant_id text NOT NULL CONSTRAINT corrector_groups_tenant_fk REFERENCES tenants,
    id text NOT NULL,
    name text NOT NULL,
    weight double precision NOT NULL CONSTRAINT corrector_groups_weight_ck
        CHECK (weight >= 0 AND weight < 'Infinity'),
    description text,
    scope_kind text NOT NULL CONSTRAINT corrector_groups_scope_kind_ck
        CHECK (scope_kind IN ('tenant', 'project', 'agent')),
    project_id text,
    agent_id text,
    assertable_by text,
    created_at timestamptz(3) NOT NULL,
    updated_at timestamptz(3) NOT NULL,
    unregistered_at timestamptz(3),
    CONSTRAINT corrector_groups_pk PRIMARY KEY (tenant_id, id),
    CONSTRAINT corrector_groups_project_fk FOREIGN KEY (tenant_id, project_id) REFERENCES projects,
    CONSTRAINT corrector_groups_scope_ck CHECK (
        (project_id IS NULL) = (scope_kind = 'tenant') AND (agent_id IS NULL) = (scope_kind <> 'agent'))
);
CREATE UNIQUE INDEX corrector_groups_name_uq
    ON corrector_groups (tenant_id, scope_kind, coalesce(project_id, ''), coalesce(agent_id, ''), name)
    WHERE unregistered_at IS NULL;
CREATE INDEX corrector_groups_newest_ix ON corrector_groups (tenant_id, created_at DESC, id DESC);

CREATE TABLE corrections (
    tenant_id text NOT NULL,
    id text NOT NULL,
    project_id text NOT NULL,
    run_id text NOT NULL,
    subject_kind text NOT NULL,
    subject_id text NOT NULL,
    subject_version text NOT NULL,
    decisions text CONSTRAINT corrections_decisions_ck CHECK (decisions IN ('right', 'wrong')),
    should_call text,
    must_not_call text,
    answer text CONSTRAINT corrections_answer_ck CHECK (answer IN ('right', 'wrong')),
    should_say text,
    why text,
    items text,
    corrector_group_id text,
    expert boolean NOT NULL DEFAULT false,
    made_by_kind text NOT NULL CONSTRAINT corrections_made_by_kind_ck CHECK (made_by_kind IN ('user', 'service')),
    made_by_id text NOT NULL,
    participant_id text,
    participant_sha256 bytea NOT NULL,      -- of the participant's id; empty without one
    end_user boolean NOT NULL,              -- had a participant and was no expert's; stays after an erasure
    status text NOT NULL CONSTRAINT corrections_status_ck
        CHECK (status IN ('open', 'being-fixed', 'with-owner', 'fixed', 'wont-fix', 'removed')),
    sorted_to text CONSTRAINT corrections_sorted_to_ck CHECK (sorted_to IN ('improve', 'developer', 'owner')),
    sorted_by_kind text,
    sorted_by_id text,
    sorted_reason text,
    sorted_at timestamptz(3),
    link text,
    fixed_version text,
    fixed_how text CONSTRAINT corrections_fixed_how_ck CHECK (fixed_how IN ('pin', 'latest', 'recorded-right')),
    fixed_by_kind text,
    fixed_by_id text,
    fixed_at timestamptz(3),
    reopened_version text,
    reopened_how text CONSTRAINT corrections_reopened_how_ck
        CHECK (reopened_how IN ('pin', 'went-back', 'unpin', 'latest')),
    reopened_by_kind text,
    reopened_by_id text,
    reopened_at timestamptz(3),
    status_note_text text,
    status_note_by_kind text,
    status_note_by_id text,
    status_note_at timestamptz(3),
    created_at timestamptz(3) NOT NULL,
    updated_at timestamptz(3) NOT NULL,
    unregistered_at timestamptz(3),
    superseded_by text,
    erased_participant boolean NOT NULL DEFAULT false,
    decided_seq bigint NOT NULL DEFAULT 0,  -- the subject's events up to here are in this row (or change nothing)
    version bigint NOT NULL DEFAULT 1,      -- of this row: the ETag
    CONSTRAINT corrections_pk PRIMARY KEY (tenant_id, id),
    CONSTRAINT corrections_says_something_ck
        CHECK (decisions IS NOT NULL OR answer IS NOT NULL OR items IS NOT NULL),
    CONSTRAINT corrections_owner_ck CHECK (
        superseded_by IS NOT NULL OR status NOT IN ('open', 'with-owner')
        OR (status = 'with-owner') = (sorted_to IS NOT DISTINCT FROM 'owner'))
);
CREATE UNIQUE INDEX corrections_live_uq
    ON corrections (tenant_id, run_id, made_by_kind, made_by_id, participant_sha256)
    WHERE unregistered_at IS NULL AND NOT erased_participant;
-- Two indexes a list filter: for callers who may read everything, and, with the project first, for those who may not.
-- Each holds the status: a page merges the newest rows of each status that it may show, so removed rows cost nothing.
CREATE INDEX corrections_status_ix
    ON corrections (tenant_id, status, created_at DESC, id DESC) WHERE superseded_by IS NULL;
CREATE INDEX corrections_project_status_ix
    ON corrections (tenant_id, project_id, status, created_at DESC, id DESC) WHERE superseded_by IS NULL;
CREATE INDEX corrections_subject_ix
    ON corrections (tenant_id, subject_kind, subject_id, status, created_at DESC, id DESC) WHERE superseded_by IS NULL;
CREATE INDEX corrections_project_subject_ix
    ON corrections (tenant_id, project_id, subject_kind, subject_id, status, created_at DESC, id DESC)
    WHERE superseded_by IS NULL;
CREATE INDEX corrections_version_ix
    ON corrections (tenant_id, subject_kind, subject_id, subject_version, status, created_at DESC, id DESC)
    WHERE superseded_by IS NULL;
CREATE INDEX corrections_project_version_ix
    ON corrections (tenant_id, project_id, subject_kind, subject_id, subject_version, status, created_at DESC, id DESC)
    WHERE superseded_by IS NULL;
CREATE INDEX corrections_sorted_to_ix
    ON corrections (tenant_id, (coalesce(sorted_to, 'none')), status, created_at DESC, id DESC)
    WHERE superseded_by IS NULL;
CREATE INDEX corrections_project_sorted_to_ix
    ON corrections (tenant_id, project_id, (coalesce(sorted_to, 'none')), status, created_at DESC, id DESC)
    WHERE superseded_by IS NULL;
CREATE INDEX corrections_made_by_ix
    ON corrections (tenant_id, made_by_kind, made_by_id, status, created_at DESC, id DESC) WHERE superseded_by IS NULL;
CREATE INDEX corrections_project_made_by_ix
    ON corrections (tenant_id, project_id, made_by_kind, made_by_id, status, created_at DESC, id DESC)
    WHERE superseded_by IS NULL;
CREATE INDEX corrections_group_ix
    ON corrections (tenant_id, corrector_group_id, status, created_at DESC, id DESC)
    WHERE superseded_by IS NULL AND corrector_group_id IS NOT NULL;
CREATE INDEX corrections_project_group_ix
    ON corrections (tenant_id, project_id, corrector_group_id, status, created_at DESC, id DESC)
    WHERE superseded_by IS NULL AND corrector_group_id IS NOT NULL;
CREATE INDEX corrections_experts_ix
    ON corrections (tenant_id, status, created_at DESC, id DESC) WHERE superseded_by IS NULL AND expert;
CREATE INDEX corrections_project_experts_ix
    ON corrections (tenant_id, project_id, status, created_at DESC, id DESC) WHERE superseded_by IS NULL AND expert;
CREATE INDEX corrections_end_users_ix
    ON corrections (tenant_id, status, created_at DESC, id DESC) WHERE superseded_by IS NULL AND end_user;
CREATE INDEX corrections_project_end_users_ix
    ON corrections (tenant_id, project_id, status, created_at DESC, id DESC) WHERE superseded_by IS NULL AND end_user;

-- These name few rows, all or most of one project.
CREATE INDEX corrections_run_ix ON corrections (tenant_id, run_id, status, created_at DESC, id DESC);
CREATE INDEX corrections_participant_ix
    ON corrections (tenant_id, participant_sha256, status, created_at DESC, id DESC)
    WHERE superseded_by IS NULL AND participant_id IS NOT NULL;

-- Those that wait in a queue, for the sweep to hold against the queues without reading a row.
CREATE INDEX corrections_waiting_ix ON corrections (tenant_id, id, sorted_to)
    WHERE status IN ('open', 'with-owner') AND sorted_to IS NOT NULL AND superseded_by IS NULL;

CREATE TABLE correction_history (
    tenant_id text NOT NULL,
    correction_id text NOT NULL,
    id bigint GENERATED ALWAYS AS IDENTITY,
    at timestamptz(3) NOT NULL,
    kind text NOT NULL CONSTRAINT correction_history_kind_ck CHECK (kind IN (
        'recorded', 'sorted', 'status', 'linked', 'noted', 'fixed', 'reopened', 'superseded', 'removed')),
    by_kind text,
    by_id text,
    from_value text,
    to_value text,
    version text,
    how text,
    test_run_id text,
    reason text,
    CONSTRAINT correction_history_pk PRIMARY KEY (tenant_id, correction_id, id)
);
CREATE INDEX correction_history_turns_ix ON correction_history (tenant_id, correction_id) INCLUDE (kind, how, at)
    WHERE kind IN ('fixed', 'reopened');

-- At most one unended item a correction; ended ones say why, for the holder of a lost lease.
CREATE TABLE work_items (
    tenant_id text NOT NULL,
    id text NOT NULL,
    correction_id text NOT NULL,
    project_id text NOT NULL,
    subject_kind text NOT NULL,
    subject_id text NOT NULL,
    queue text NOT NULL CONSTRAINT work_items_queue_ck CHECK (queue IN ('improve', 'developer', 'owner')),
    state text NOT NULL CONSTRAINT work_items_state_ck
        CHECK (state IN ('ready', 'leased', 'parked', 'done', 'withdrawn')),
    correction_created_at timestamptz(3) NOT NULL,
    ready_since timestamptz(3) NOT NULL,
    available_at timestamptz(3) NOT NULL,
    lease_token_sha256 bytea,
    lease_expires_at timestamptz(3),
    leased_by_kind text,
    leased_by_id text,
    attempt integer NOT NULL DEFAULT 0,
    ended_reason text,
    ended_at timestamptz(3),
    created_at timestamptz(3) NOT NULL,
    CONSTRAINT work_items_pk PRIMARY KEY (tenant_id, id),
    CONSTRAINT work_items_correction_fk FOREIGN KEY (tenant_id, correction_id) REFERENCES corrections
);
CREATE UNIQUE INDEX work_items_unended_uq
    ON work_items (tenant_id, correction_id) INCLUDE (queue) WHERE state IN ('ready', 'leased', 'parked');
-- A page merges the newest of each queue and state; callers who may read some projects only use the second.
CREATE INDEX work_items_newest_ix ON work_items (tenant_id, queue, state, created_at DESC, id DESC);
CREATE INDEX work_items_project_ix ON work_items (tenant_id, project_id, queue, state, created_at DESC, id DESC);
-- Counts are read from these two alone; few values repeat, so they are small.
CREATE INDEX work_items_ended_ix ON work_items (tenant_id, queue, state, project_id)
    WHERE state IN ('done', 'withdrawn');
CREATE INDEX work_items_waiting_ix ON work_items (tenant_id, queue, project_id, state, ready_since, lease_expires_at)
    WHERE state IN ('ready', 'leased', 'parked');
CREATE INDEX work_items_correction_ix ON work_items (tenant_id, correction_id);
CREATE INDEX work_items_claim_ix
    ON work_items (tenant_id, queue, project_id, subject_kind, subject_id, correction_created_at, correction_id)
    WHERE state IN ('ready', 'leased');

-- The inbox of each principal. event_key makes telling twice the same as telling once.
CREATE TABLE notifications (
    tenant_id text NOT NULL,
    id text NOT NULL,
    principal_kind text NOT NULL,
    principal_id text NOT NULL,
    type text NOT NULL,
    at timestamptz(3) NOT NULL,
    read_at timestamptz(3),
    event_key bytea NOT NULL,
    data text NOT NULL,
    CONSTRAINT notifications_pk PRIMARY KEY (tenant_id, id),
    CONSTRAINT notifications_once_uq UNIQUE (tenant_id, event_key)
);
CREATE INDEX notifications_inbox_ix
    ON notifications (tenant_id, principal_kind, principal_id, at DESC, id DESC);
CREATE INDEX notifications_unread_ix
    ON notifications (tenant_id, principal_kind, principal_id, at DESC, id DESC) WHERE read_at IS NULL;

-- A job is a row before it is a message. sent_at: when the relay last published it; done_at: its effect is committed.
CREATE TABLE outbox (
    tenant_id text NOT NULL,
    id bigint GENERATED ALWAYS AS IDENTITY,
    job text NOT NULL,
    ids text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    due_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    sent_at timestamptz,
    sends integer NOT NULL DEFAULT 0,
    failures integer NOT NULL DEFAULT 0,
    last_error text,
    done_at timestamptz,
    dead_at timestamptz,
    CONSTRAINT outbox_pk PRIMARY KEY (tenant_id, id)
);
-- Announcements are for somebody else's workers and may wait for ever: they never stand in the way of our own jobs.
CREATE INDEX outbox_due_ix ON outbox (due_at, id)
    WHERE done_at IS NULL AND dead_at IS NULL AND job <> 'corrigenda.improve';
CREATE INDEX outbox_announcements_ix ON outbox (due_at, id)
    WHERE done_at IS NULL AND dead_at IS NULL AND job = 'corrigenda.improve';
CREATE INDEX outbox_done_ix ON outbox (done_at) WHERE done_at IS NOT NULL;
CREATE INDEX outbox_dead_ix ON outbox (dead_at) WHERE dead_at IS NOT NULL;
-- Each row is written three times and soon deleted: clean up early, or its indexes bloat.
ALTER TABLE outbox SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000,
    autovacuum_analyze_scale_factor = 0.1);

-- When each kind of process was last seen at work.
CREATE TABLE heartbeats (
    name text CONSTRAINT heartbeats_pk PRIMARY KEY,
    at timestamptz NOT NULL
);

-- key_sha256: of principal, method, path and key. An answer with a secret is marked withheld and not kept.
CREATE TABLE idempotency_answers (
    tenant_id text NOT NULL,
    key_sha256 bytea NOT NULL,
    body_sha256 bytea NOT NULL,
    status smallint NOT NULL,
    content_type text,
    body bytea,
    headers text,
    withheld boolean NOT NULL DEFAULT false,
    at timestamptz(3) NOT NULL,
    expires_at timestamptz NOT NULL,
    CONSTRAINT idempotency_answers_pk PRIMARY KEY (tenant_id, key_sha256)
);
CREATE INDEX idempotency_answers_expiry_ix ON idempotency_answers (expires_at);

-- What the wire shows of a time, and of a correction. One rendering for every list, page, answer and export.
CREATE FUNCTION wire_time(t timestamptz) RETURNS text LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT to_char(t AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')
$$;

-- STABLE like the to_json in it: a function that promises more than its body is not inlined, and costs ten times as much.
CREATE FUNCTION wire_principal(kind text, id text) RETURNS text LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT '{"kind":"' || kind || '"' || coalesce(',"id":' || to_json(id)::text, '') || '}'
$$;

-- In plpgsql, which plans it once a connection; inlined into a page's statement it would be planned with every page.
CREATE FUNCTION correction_json(c corrections) RETURNS text LANGUAGE plpgsql STABLE PARALLEL SAFE AS $$
BEGIN
    RETURN concat(
        '{"id":"', c.id, '","tenantId":"', c.tenant_id, '","projectId":"', c.project_id, '","runId":"', c.run_id,
        '","subject":{"kind":"', c.subject_kind, '","id":', to_json(c.subject_id), ',"version":',
        to_json(c.subject_version), '}',
        ',"decisions":"' || c.decisions || '"',
        ',"shouldCall":' || c.should_call,
        ',"mustNotCall":' || c.must_not_call,
        ',"answer":"' || c.answer || '"',
        ',"shouldSay":' || to_json(c.should_say)::text,
        ',"why":' || to_json(c.why)::text,
        ',"items":' || c.items,
        ',"correctorGroupId":' || to_json(c.corrector_group_id)::text,
        CASE WHEN c.expert THEN ',"expert":true' END,
        ',"madeBy":', wire_principal(c.made_by_kind, c.made_by_id),
        ',"participantId":' || to_json(c.participant_id)::text,
        ',"status":"', c.status, '"',
        ',"sortedTo":"' || c.sorted_to || '"',
        ',"sorted":{"by":' || wire_principal(c.sorted_by_kind, c.sorted_by_id)
            || coalesce(',"reason":' || to_json(c.sorted_reason)::text, '')
            || ',"at":"' || wire_time(c.sorted_at) || '"}',
        ',"link":' || c.link,
        ',"fixedIn":{' || coalesce('"version":' || to_json(c.fixed_version)::text || ',', '')
            || '"how":"' || c.fixed_how || '"'
            || coalesce(',"by":' || wire_principal(c.fixed_by_kind, c.fixed_by_id), '')
            || ',"at":"' || wire_time(c.fixed_at) || '"}',
        ',"reopenedIn":{"version":' || to_json(c.reopened_version)::text
            || ',"how":"' || c.reopened_how || '"'
            || coalesce(',"by":' || wire_principal(c.reopened_by_kind, c.reopened_by_id), '')
            || ',"at":"' || wire_time(c.reopened_at) || '"}',
        ',"statusNote":{"text":' || to_json(c.status_note_text)::text
            || ',"by":' || wire_principal(c.status_note_by_kind, c.status_note_by_id)
            || ',"at":"' || wire_time(c.status_note_at) || '"}',
        ',"createdAt":"', wire_time(c.created_at), '","updatedAt":"', wire_time(c.updated_at), '"',
        ',"unregisteredAt":"' || wire_time(c.unregistered_at) || '"',
        ',"supersededBy":"' || c.superseded_by || '"',
        '}');
END $$;

-- The stored copy of a run, and a correction with it.
CREATE FUNCTION copy_json(o copies) RETURNS text LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT concat(
        '{"runId":"', o.run_id, '","subject":{"kind":"', o.subject_kind, '","id":', to_json(o.subject_id),
        ',"version":', to_json(o.subject_version), '}',
        ',"input":', coalesce(o.input, 'null'),
        ',"context":' || o.context,
        ',"output":', coalesce(o.output, 'null'),
        ',"segments":', o.segments,
        ',"capturedAt":"', wire_time(o.captured_at), '"',
        ',"erasedAt":"' || wire_time(o.erased_at) || '"',
        '}')
$$;

CREATE FUNCTION correction_with_copy_json(c corrections, o copies) RETURNS text LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT left(correction_json(c), -1) || ',"run":' || copy_json(o) || '}'
$$;

CREATE FUNCTION run_summary(r runs) RETURNS text LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT concat(
        '{"id":"', r.id, '","tenantId":"', r.tenant_id, '","projectId":"', r.project_id,
        '","subject":{"kind":"', r.subject_kind, '","id":', to_json(r.subject_id), ',"version":',
        to_json(r.subject_version), '}',
        ',"status":"', r.status, '"',
        ',"conversationId":' || to_json(r.conversation_id)::text,
        ',"parentRunId":"' || r.parent_run_id || '"',
        ',"nodeId":' || to_json(r.node_id)::text,
        ',"scope":' || to_json(r.scope)::text,
        ',"replayOf":"' || r.replay_of || '"',
        ',"segments":' || r.segments,
        ',"sessionApproval":' || r.session_approval,
        ',"startedAt":"' || wire_time(r.started_at) || '"',
        ',"finishedAt":"' || wire_time(r.finished_at) || '"',
        ',"createdAt":"', wire_time(r.arrived_at), '","updatedAt":"', wire_time(r.updated_at), '"',
        ',"erasedAt":"' || wire_time(r.erased_at) || '"',
        '}')
$$;

-- Locks, held to the end of the transaction. A run's serialises its recordings, its capture and its erasure.
-- A subject's is shared by recordings and taken alone by events: a correction's place among them is then certain.
-- An event of one project takes it there (lock_subject), a deploy in all projects at once (lock_subject_everywhere).
CREATE FUNCTION lock_run(tenant text, run text) RETURNS void LANGUAGE sql AS $$
    SELECT pg_advisory_xact_lock(hashtextextended('run ' || tenant || ' ' || run, 0))
$$;
CREATE FUNCTION lock_subject_everywhere(tenant text, kind text, id text) RETURNS void LANGUAGE sql AS $$
    SELECT pg_advisory_xact_lock(hashtextextended(concat_ws(' ', 'everywhere', tenant, kind, id), 0))
$$;
CREATE FUNCTION lock_subject(tenant text, project text, kind text, id text) RETURNS void LANGUAGE sql AS $$
    SELECT pg_advisory_xact_lock_shared(hashtextextended(concat_ws(' ', 'everywhere', tenant, kind, id), 0));
    SELECT pg_advisory_xact_lock(hashtextextended(concat_ws(' ', 'subject', tenant, project, kind, id), 0))
$$;
CREATE FUNCTION lock_subject_shared(tenant text, project text, kind text, id text) RETURNS void LANGUAGE sql AS $$
    SELECT pg_advisory_xact_lock_shared(hashtextextended(concat_ws(' ', 'everywhere', tenant, kind, id), 0));
    SELECT pg_advisory_xact_lock_shared(hashtextextended(concat_ws(' ', 'subject', tenant, project, kind, id), 0))
$$;

-- All that recording needs to know of the run, read under its lock. No row: no such run in the tenant.
CREATE FUNCTION recording_context(
    p_tenant text, p_run text, p_kind text, p_id text, p_participant bytea, p_group text, p_output boolean,
    OUT at timestamptz, OUT project_id text, OUT org_id text, OUT subject_kind text, OUT subject_id text,
    OUT subject_version text, OUT status text, OUT has_output boolean, OUT erased boolean, OUT output text,
    OUT first boolean, OUT live_id text, OUT accepted_seq bigint, OUT group_scope text, OUT group_project text,
    OUT group_agent text, OUT group_assertable text
) RETURNS SETOF record LANGUAGE plpgsql AS $$
BEGIN
    PERFORM lock_run(p_tenant, p_run);
    SELECT r.project_id, p.org_id, r.subject_kind, r.subject_id, r.subject_version, r.status,
           r.output IS NOT NULL, r.erased_at IS NOT NULL, CASE WHEN p_output THEN r.output END
      INTO project_id, org_id, subject_kind, subject_id, subject_version, status, has_output, erased, output
      FROM runs r JOIN projects p ON p.tenant_id = r.tenant_id AND p.id = r.project_id
     WHERE r.tenant_id = p_tenant AND r.id = p_run;
    IF NOT FOUND THEN RETURN; END IF;
    PERFORM lock_subject_shared(p_tenant, project_id, subject_kind, subject_id);
    SELECT w.accepted_seq INTO accepted_seq FROM running w
     WHERE w.tenant_id = p_tenant AND w.project_id = recording_context.project_id
       AND w.subject_kind = recording_context.subject_kind AND w.subject_id = recording_context.subject_id;
    SELECT c.id, c.created_at INTO live_id, at FROM corrections c
     WHERE c.tenant_id = p_tenant AND c.run_id = p_run AND c.made_by_kind = p_kind AND c.made_by_id = p_id
       AND c.participant_sha256 = p_participant AND c.unregistered_at IS NULL AND NOT c.erased_participant
       FOR NO KEY UPDATE; -- A removal at the same time comes before this or finds it superseded.
    -- Never older than the one that it ends, whatever the clock did meanwhile.
    at := greatest(date_trunc('milliseconds', clock_timestamp()), at);
    first := NOT EXISTS (SELECT FROM copies o WHERE o.tenant_id = p_tenant AND o.run_id = p_run);
    IF p_group IS NOT NULL THEN
        SELECT g.scope_kind, g.project_id, g.agent_id, g.assertable_by
          INTO group_scope, group_project, group_agent, group_assertable
          FROM corrector_groups g
         WHERE g.tenant_id = p_tenant AND g.id = p_group AND g.unregistered_at IS NULL;
    END IF;
    RETURN NEXT;
END $$;

-- The writing of a recording, in one statement: ends the older one, keeps the copy, the history and the jobs.
CREATE FUNCTION record_correction(p_row json, p_ends text, p_first boolean, p_history json, p_jobs json)
RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    c corrections;
BEGIN
    c := json_populate_record(NULL::corrections, p_row);
    IF p_ends IS NOT NULL THEN
        UPDATE corrections o
           SET unregistered_at = c.created_at, superseded_by = c.id, updated_at = c.created_at, version = version + 1
         WHERE o.tenant_id = c.tenant_id AND o.id = p_ends;
        INSERT INTO correction_history (tenant_id, correction_id, at, kind, by_kind, by_id, to_value)
        VALUES (c.tenant_id, p_ends, c.created_at, 'superseded', c.made_by_kind, c.made_by_id, c.id);
    END IF;
    INSERT INTO corrections SELECT c.*;
    IF p_first THEN
        INSERT INTO copies (tenant_id, run_id, project_id, subject_kind, subject_id, subject_version, conversation_id,
                            input, output, segments, replay_of, captured_at, taken_at)
        SELECT r.tenant_id, r.id, r.project_id, r.subject_kind, r.subject_id, r.subject_version, r.conversation_id,
               r.input, r.output, coalesce(r.segments, '[]'), r.replay_of, c.created_at, clock_timestamp()
          FROM runs r WHERE r.tenant_id = c.tenant_id AND r.id = c.run_id;
    END IF;
    INSERT INTO correction_history (tenant_id, correction_id, at, kind, by_kind, by_id, to_value, how)
    SELECT c.tenant_id, c.id, c.created_at, h.kind, h.by_kind, h.by_id, h.to_value, h.how
      FROM json_to_recordset(p_history) AS h(kind text, by_kind text, by_id text, to_value text, how text);
    INSERT INTO outbox (tenant_id, job, ids)
    SELECT c.tenant_id, j.job, j.ids FROM json_to_recordset(p_jobs) AS j(job text, ids text);
    RETURN correction_json(c);
END $$;

-- Takes an idempotency key for this transaction and reads what is kept under it, seeing all that was committed by then.
CREATE FUNCTION idempotency_begin(
    p_tenant text, p_key bytea,
    OUT locked boolean, OUT body_sha256 bytea, OUT status smallint, OUT content_type text, OUT body bytea,
    OUT headers text, OUT withheld boolean, OUT at timestamptz
) LANGUAGE plpgsql AS $$
BEGIN
    locked := pg_try_advisory_xact_lock(hashtextextended('idempotency ' || p_tenant || encode(p_key, 'hex'), 0));
    IF NOT locked THEN RETURN; END IF;
    SELECT a.body_sha256, a.status, a.content_type, a.body, a.headers, a.withheld, a.at
      INTO body_sha256, status, content_type, body, headers, withheld, at
      FROM idempotency_answers a
     WHERE a.tenant_id = p_tenant AND a.key_sha256 = p_key AND a.expires_at > clock_timestamp();
END $$;

-- What projects run, what test runs say, and how far the corrections have been decided on.
-- docs/decisions/accepted-log.md tells why it is like this.

-- Every deploy, also those that moved nothing. at: as of when it counts; accepted_at: when it came.
CREATE TABLE deploys (
    tenant_id text NOT NULL,
    id text NOT NULL,
    subject_kind text NOT NULL,
    subject_id text NOT NULL,
    version text NOT NULL,
    how text NOT NULL CONSTRAINT deploys_how_ck CHECK (how IN ('deploy', 'add')),
    at timestamptz(3) NOT NULL,
    accepted_at timestamptz(3) NOT NULL,
    by_kind text NOT NULL,
    by_id text NOT NULL,
    moved boolean NOT NULL,
    CONSTRAINT deploys_pk PRIMARY KEY (tenant_id, id),
    CONSTRAINT deploys_subject_fk FOREIGN KEY (tenant_id, subject_kind, subject_id) REFERENCES subjects
);

-- The versions of a subject in the order in which deploys and pins first named them; what only runs claim isn't here.
CREATE TABLE seen_versions (
    tenant_id text NOT NULL,
    subject_kind text NOT NULL,
    subject_id text NOT NULL,
    version text NOT NULL,
    first_seen bigint GENERATED ALWAYS AS IDENTITY,
    CONSTRAINT seen_versions_pk PRIMARY KEY (tenant_id, subject_kind, subject_id, version)
);

-- The accepted log of each subject in each project, without gaps: running.accepted_seq is its head.
-- version, how and by are what the project runs after the event; no version: it runs none.
-- moved: the event changed any of them. decides: on all corrections of the subject here, on those named by the test run
-- source_id or by the deploy or pin resolves_id, or on none.
CREATE TABLE accepted_events (
    tenant_id text NOT NULL,
    project_id text NOT NULL,
    subject_kind text NOT NULL,
    subject_id text NOT NULL,
    seq bigint NOT NULL,
    kind text NOT NULL CONSTRAINT accepted_events_kind_ck
        CHECK (kind IN ('deploy', 'pin', 'unpin', 'test-run', 'acquaintance')),
    source_id text,
    accepted_at timestamptz(3) NOT NULL,
    version text,
    how text CONSTRAINT accepted_events_how_ck CHECK (how IN ('pin', 'went-back', 'unpin', 'latest')),
    by_kind text,
    by_id text,
    moved boolean NOT NULL,
    decides text NOT NULL CONSTRAINT accepted_events_decides_ck CHECK (decides IN ('all', 'named', 'none')),
    resolves_id text,
    CONSTRAINT accepted_events_pk PRIMARY KEY (tenant_id, project_id, subject_kind, subject_id, seq),
    CONSTRAINT accepted_events_running_fk FOREIGN KEY (tenant_id, project_id, subject_kind, subject_id)
        REFERENCES running,
    CONSTRAINT accepted_events_decides_version_ck CHECK (decides = 'none' OR version IS NOT NULL)
);
CREATE INDEX accepted_events_moved_ix ON accepted_events (tenant_id, project_id, accepted_at DESC) WHERE moved;

-- The corrections that fitted the resolves of a deploy or pin when it was accepted.
CREATE TABLE resolved_corrections (
    tenant_id text NOT NULL,
    source_id text NOT NULL,
    project_id text NOT NULL,
    correction_id text NOT NULL,
    CONSTRAINT resolved_corrections_pk PRIMARY KEY (tenant_id, source_id, project_id, correction_id),
    CONSTRAINT resolved_corrections_correction_fk FOREIGN KEY (tenant_id, correction_id) REFERENCES corrections
        ON DELETE CASCADE
);
CREATE INDEX resolved_corrections_correction_ix ON resolved_corrections (tenant_id, correction_id);
CREATE INDEX corrections_link_ix ON corrections (tenant_id, md5(link)) WHERE link IS NOT NULL AND unregistered_at IS NULL;

CREATE TABLE test_runs (
    tenant_id text NOT NULL,
    id text NOT NULL,
    project_id text NOT NULL,
    subject_kind text NOT NULL,
    subject_id text NOT NULL,
    subject_version text NOT NULL,
    source text,
    at timestamptz(3) NOT NULL,
    accepted_at timestamptz(3) NOT NULL,
    by_kind text NOT NULL,
    by_id text NOT NULL,
    seq bigint NOT NULL,
    right_count integer NOT NULL,
    wrong_count integer NOT NULL,
    ignored_count integer NOT NULL,
    fixed_count integer NOT NULL DEFAULT 0,
    reopened_count integer NOT NULL DEFAULT 0,
    CONSTRAINT test_runs_pk PRIMARY KEY (tenant_id, id),
    CONSTRAINT test_runs_event_fk FOREIGN KEY (tenant_id, project_id, subject_kind, subject_id, seq)
        REFERENCES accepted_events
);
CREATE INDEX test_runs_newest_ix ON test_runs (tenant_id, accepted_at DESC, id DESC);
CREATE INDEX test_runs_project_ix ON test_runs (tenant_id, project_id, accepted_at DESC, id DESC);

-- Every verdict, so that the newest one as of any event can be told: by at, then by arrival (seq).
CREATE TABLE test_results (
    tenant_id text NOT NULL,
    test_run_id text NOT NULL,
    correction_id text NOT NULL,
    project_id text NOT NULL,
    subject_kind text NOT NULL,
    subject_id text NOT NULL,
    version text NOT NULL,
    at timestamptz(3) NOT NULL,
    seq bigint NOT NULL,
    verdict text NOT NULL CONSTRAINT test_results_verdict_ck CHECK (verdict IN ('right', 'wrong')),
    ignored boolean NOT NULL,
    detail text,
    CONSTRAINT test_results_pk PRIMARY KEY (tenant_id, test_run_id, correction_id),
    CONSTRAINT test_results_correction_fk FOREIGN KEY (tenant_id, correction_id) REFERENCES corrections
        ON DELETE CASCADE
);
CREATE INDEX test_results_newest_ix ON test_results
    (tenant_id, project_id, subject_kind, subject_id, version, correction_id, at DESC, seq DESC);
CREATE INDEX test_results_correction_ix ON test_results (tenant_id, correction_id);

-- One walk of the workers over the corrections that the events after from_seq, up to to_seq, may concern. handed_to: up
-- to which correction it was handed out in batches. When all of them are done, the subject is applied up to to_seq.
CREATE TABLE passes (
    tenant_id text NOT NULL,
    project_id text NOT NULL,
    subject_kind text NOT NULL,
    subject_id text NOT NULL,
    from_seq bigint NOT NULL,
    to_seq bigint NOT NULL,
    handed_to text NOT NULL DEFAULT '',
    handed_out boolean NOT NULL DEFAULT false,
    CONSTRAINT passes_pk PRIMARY KEY (tenant_id, project_id, subject_kind, subject_id),
    CONSTRAINT passes_running_fk FOREIGN KEY (tenant_id, project_id, subject_kind, subject_id) REFERENCES running
);

-- The batches of a pass that are handed out and not done: corrections after after_id, up to last_id.
CREATE TABLE pass_batches (
    tenant_id text NOT NULL,
    project_id text NOT NULL,
    subject_kind text NOT NULL,
    subject_id text NOT NULL,
    after_id text NOT NULL,
    last_id text NOT NULL,
    CONSTRAINT pass_batches_pk PRIMARY KEY (tenant_id, project_id, subject_kind, subject_id, after_id),
    CONSTRAINT pass_batches_pass_fk FOREIGN KEY (tenant_id, project_id, subject_kind, subject_id) REFERENCES passes
);

-- What a pass will tell of: per event how often it happened, and of the first hundred the correction and the event's seq.
CREATE TABLE pass_notices (
    tenant_id text NOT NULL,
    project_id text NOT NULL,
    subject_kind text NOT NULL,
    subject_id text NOT NULL,
    event text NOT NULL,
    total integer NOT NULL,
    first_ids text[] NOT NULL,
    first_seqs bigint[] NOT NULL,
    CONSTRAINT pass_notices_pk PRIMARY KEY (tenant_id, project_id, subject_kind, subject_id, event),
    CONSTRAINT pass_notices_pass_fk FOREIGN KEY (tenant_id, project_id, subject_kind, subject_id) REFERENCES passes
        ON DELETE CASCADE
);

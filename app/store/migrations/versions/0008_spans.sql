-- What came of a trace by OTLP for a project. Its run, of the same id, is there once its outermost agent or workflow span is;
-- it is made anew from all spans whenever more come, until it is corrected. content_sha256 is that of the run as it was made
-- last: a run of this id with another was put by somebody else. Of several projects' spans the first's that come to a run do.
CREATE TABLE traces (
    tenant_id text NOT NULL,
    id text NOT NULL,
    project_id text NOT NULL,
    arrived_at timestamptz NOT NULL,
    changed_at timestamptz NOT NULL,
    content_sha256 bytea,
    waits boolean NOT NULL DEFAULT false,
    patient boolean NOT NULL DEFAULT true,
    CONSTRAINT traces_pk PRIMARY KEY (tenant_id, id, project_id),
    CONSTRAINT traces_project_fk FOREIGN KEY (tenant_id, project_id) REFERENCES projects
);
-- Those that retention looks for: without a run, by age.
CREATE INDEX traces_loose_ix ON traces (tenant_id, project_id, changed_at) WHERE content_sha256 IS NULL;
-- Those of which a span around the outermost agent's isn't there and may never come.
CREATE INDEX traces_waiting_ix ON traces (changed_at) WHERE waits;

CREATE TABLE spans (
    tenant_id text NOT NULL,
    trace_id text NOT NULL,
    project_id text NOT NULL,
    id text NOT NULL,
    conversation_id text,
    acts boolean NOT NULL,
    content text NOT NULL,
    CONSTRAINT spans_pk PRIMARY KEY (tenant_id, trace_id, project_id, id),
    CONSTRAINT spans_trace_fk FOREIGN KEY (tenant_id, trace_id, project_id) REFERENCES traces
        ON DELETE CASCADE
);
-- Those of agents and workflows: without one there is no run, and no need to read all others.
CREATE INDEX spans_acting_ix ON spans (tenant_id, trace_id, project_id) WHERE acts;
CREATE INDEX spans_conversation_ix ON spans (tenant_id, conversation_id) WHERE conversation_id IS NOT NULL;

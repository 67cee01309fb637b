-- Endpoints that people and programs are told through, and what was delivered to each.

-- target: as it is shown; target_sealed: all of it, where it is a secret itself. Sealed columns are encrypted with the
-- service's secret. An endpoint that is unregistered (by a person) or ended (by its receiver) takes nothing any more.
CREATE TABLE notification_endpoints (
    tenant_id text NOT NULL CONSTRAINT notification_endpoints_tenant_fk REFERENCES tenants,
    id text NOT NULL,
    kind text NOT NULL CONSTRAINT notification_endpoints_kind_ck CHECK (kind IN ('webhook', 'email', 'slack')),
    target text NOT NULL,
    target_sealed bytea,
    target_sha256 bytea NOT NULL,
    events text[] NOT NULL,
    scope_kind text NOT NULL CONSTRAINT notification_endpoints_scope_kind_ck
        CHECK (scope_kind IN ('tenant', 'project', 'principal')),
    project_id text,
    principal_kind text CONSTRAINT notification_endpoints_principal_kind_ck
        CHECK (principal_kind IN ('user', 'service')),
    principal_id text,
    digest_seconds integer NOT NULL CONSTRAINT notification_endpoints_digest_ck
        CHECK (digest_seconds BETWEEN 0 AND 86400),
    secret_sealed bytea,
    former_secret_sealed bytea,
    former_secret_until timestamptz,
    made_by_kind text NOT NULL,
    made_by_id text NOT NULL,
    created_at timestamptz(3) NOT NULL,
    updated_at timestamptz(3) NOT NULL,
    unregistered_at timestamptz(3),
    ended_at timestamptz(3),
    ended_reason text CONSTRAINT notification_endpoints_ended_ck CHECK (ended_reason IN ('gone', 'failing')),
    failing_since timestamptz(3),
    last_success_at timestamptz(3),
    CONSTRAINT notification_endpoints_pk PRIMARY KEY (tenant_id, id),
    CONSTRAINT notification_endpoints_project_fk FOREIGN KEY (tenant_id, project_id) REFERENCES projects,
    CONSTRAINT notification_endpoints_scope_ck CHECK (
        (project_id IS NOT NULL) = (scope_kind = 'project')
        AND (principal_kind IS NOT NULL) = (scope_kind = 'principal')
        AND (principal_id IS NOT NULL) = (scope_kind = 'principal'))
);
CREATE INDEX notification_endpoints_newest_ix ON notification_endpoints (tenant_id, created_at DESC, id DESC);
CREATE INDEX notification_endpoints_live_ix ON notification_endpoints (tenant_id)
    WHERE unregistered_at IS NULL AND ended_at IS NULL;

-- One message to one endpoint. collecting: words may still join until due_at. body is fixed when it is first sent.
-- lease counts the times that it was taken to be sent; tries the attempts since it last became pending.
CREATE TABLE deliveries (
    tenant_id text NOT NULL,
    id text NOT NULL,
    endpoint_id text NOT NULL,
    type text NOT NULL,
    status text NOT NULL DEFAULT 'pending' CONSTRAINT deliveries_status_ck
        CHECK (status IN ('pending', 'delivered', 'failed')),
    collecting boolean NOT NULL DEFAULT false,
    body text,
    created_at timestamptz(3) NOT NULL DEFAULT clock_timestamp(),
    due_at timestamptz NOT NULL,
    tries integer NOT NULL DEFAULT 0,
    first_tried_at timestamptz(3),
    lease integer NOT NULL DEFAULT 0,
    leased_until timestamptz,
    ended_at timestamptz(3),
    CONSTRAINT deliveries_pk PRIMARY KEY (tenant_id, id),
    CONSTRAINT deliveries_endpoint_fk FOREIGN KEY (tenant_id, endpoint_id) REFERENCES notification_endpoints
);
CREATE UNIQUE INDEX deliveries_collecting_uq ON deliveries (tenant_id, endpoint_id) WHERE collecting;
CREATE INDEX deliveries_due_ix ON deliveries (due_at) WHERE status = 'pending';
CREATE INDEX deliveries_turn_ix ON deliveries (tenant_id, endpoint_id, due_at, id) WHERE status = 'pending';
CREATE INDEX deliveries_newest_ix ON deliveries (tenant_id, endpoint_id, created_at DESC, id DESC);
CREATE INDEX deliveries_ended_ix ON deliveries (ended_at) WHERE ended_at IS NOT NULL;

-- Which words a message tells, each once an endpoint. body: of those that a digest shows. A word may stand for many.
CREATE TABLE delivery_words (
    tenant_id text NOT NULL,
    endpoint_id text NOT NULL,
    word_sha256 bytea NOT NULL,
    delivery_id text NOT NULL,
    type text NOT NULL,
    at timestamptz(3) NOT NULL,
    body text,
    stands_for integer NOT NULL DEFAULT 1,
    CONSTRAINT delivery_words_pk PRIMARY KEY (tenant_id, endpoint_id, word_sha256),
    CONSTRAINT delivery_words_delivery_fk FOREIGN KEY (tenant_id, delivery_id) REFERENCES deliveries ON DELETE CASCADE
);
CREATE INDEX delivery_words_delivery_ix ON delivery_words (tenant_id, delivery_id, at);

CREATE TABLE delivery_attempts (
    tenant_id text NOT NULL,
    delivery_id text NOT NULL,
    id bigint GENERATED ALWAYS AS IDENTITY,
    at timestamptz(3) NOT NULL DEFAULT clock_timestamp(),
    status smallint,
    error text,
    CONSTRAINT delivery_attempts_pk PRIMARY KEY (tenant_id, delivery_id, id),
    CONSTRAINT delivery_attempts_delivery_fk FOREIGN KEY (tenant_id, delivery_id) REFERENCES deliveries ON DELETE CASCADE
);

-- The message of the endpoint that words join now. Joined rows keep it from being sent until the transaction ends.
CREATE FUNCTION open_digest(p_tenant text, p_endpoint text, p_seconds integer, p_new_id text, p_type text)
RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    found_id text;
BEGIN
    LOOP
        SELECT d.id INTO found_id FROM deliveries d
         WHERE d.tenant_id = p_tenant AND d.endpoint_id = p_endpoint AND d.collecting
           AND d.due_at > clock_timestamp()
           FOR SHARE;
        IF found_id IS NOT NULL THEN RETURN found_id; END IF;
        UPDATE deliveries d SET collecting = false
         WHERE d.tenant_id = p_tenant AND d.endpoint_id = p_endpoint AND d.collecting
           AND d.due_at <= clock_timestamp();
        INSERT INTO deliveries (tenant_id, id, endpoint_id, type, collecting, due_at)
        VALUES (p_tenant, p_new_id, p_endpoint, p_type, true, clock_timestamp() + make_interval(secs => p_seconds))
        ON CONFLICT (tenant_id, endpoint_id) WHERE collecting DO NOTHING;
    END LOOP;
END $$;

-- A delivery as the wire shows it.
CREATE FUNCTION delivery_json(d deliveries) RETURNS text LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT concat(
        '{"id":"', d.id, '","type":"',
        CASE WHEN d.collecting AND (SELECT count(*) FROM (
            SELECT FROM delivery_words n WHERE n.tenant_id = d.tenant_id AND n.delivery_id = d.id LIMIT 2) AS two) > 1
        THEN 'notification.digest' ELSE d.type END,
        '","status":"', d.status, '","attempts":[',
        (SELECT string_agg(concat('{"at":"', wire_time(a.at), '"', ',"status":' || a.status,
                                  ',"error":' || to_json(a.error)::text, '}'), ',' ORDER BY a.id)
           FROM delivery_attempts a WHERE a.tenant_id = d.tenant_id AND a.delivery_id = d.id),
        ']}')
$$;

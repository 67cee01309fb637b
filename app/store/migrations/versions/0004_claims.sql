-- Who has which work item, how earlier leases ended, and whose turn it is.

-- leased_at: of the last lease; by it subjects take turns. lease_ended: how the last lease ended, if it did before the
-- item. delayed: released for some time, and not to be claimed before available_at.
ALTER TABLE work_items
    ADD COLUMN leased_at timestamptz,
    ADD COLUMN lease_ended text CONSTRAINT work_items_lease_ended_ck CHECK (lease_ended IN ('released', 'expired')),
    ADD COLUMN delayed boolean NOT NULL DEFAULT false,
    ADD CONSTRAINT work_items_leased_ck CHECK (state <> 'leased' OR lease_expires_at IS NOT NULL),
    ADD CONSTRAINT work_items_delayed_ck CHECK (NOT delayed OR state NOT IN ('leased', 'parked'));

DROP INDEX work_items_claim_ix;
CREATE INDEX work_items_claim_ix ON work_items
    (tenant_id, queue, project_id, subject_kind, subject_id, correction_created_at, correction_id)
    WHERE state = 'ready' AND NOT delayed;
CREATE INDEX work_items_served_ix ON work_items
    (tenant_id, queue, project_id, subject_kind, subject_id, leased_at DESC) WHERE leased_at IS NOT NULL;
CREATE INDEX work_items_leased_ix ON work_items (tenant_id, lease_expires_at) WHERE state = 'leased';
CREATE INDEX work_items_delayed_ix ON work_items (tenant_id, available_at) WHERE state = 'ready' AND delayed;
DROP INDEX work_items_waiting_ix;
CREATE INDEX work_items_waiting_ix ON work_items
    (tenant_id, queue, project_id, state, ready_since, lease_expires_at, attempt)
    WHERE state IN ('ready', 'leased', 'parked');

-- Leases that ended before their item did, so that a late holder can be told how.
CREATE TABLE ended_leases (
    tenant_id text NOT NULL,
    work_item_id text NOT NULL,
    token_sha256 bytea NOT NULL,
    attempt integer NOT NULL,
    by_kind text NOT NULL,
    by_id text NOT NULL,
    leased_at timestamptz(3) NOT NULL,
    ended_at timestamptz(3) NOT NULL,
    how text NOT NULL CONSTRAINT ended_leases_how_ck CHECK (how IN ('released', 'expired')),
    reason text,
    CONSTRAINT ended_leases_pk PRIMARY KEY (tenant_id, work_item_id, token_sha256),
    CONSTRAINT ended_leases_item_fk FOREIGN KEY (tenant_id, work_item_id) REFERENCES work_items ON DELETE CASCADE
);
CREATE INDEX ended_leases_ended_ix ON ended_leases (ended_at);

-- The subjects of a queue that have something to claim in a project (in any, without p_projects), the one first that was
-- served least recently. Jumps through the index from one to the next, however many items each has.
CREATE FUNCTION work_turns(p_tenant text, p_queue text, p_projects text[], p_kind text, p_subject text)
RETURNS TABLE (project_id text, subject_kind text, subject_id text) LANGUAGE sql STABLE AS $$
    WITH RECURSIVE heads AS (
        (SELECT w.project_id, w.subject_kind, w.subject_id, w.correction_created_at, w.correction_id
           FROM work_items w
          WHERE w.tenant_id = p_tenant AND w.queue = p_queue AND w.state = 'ready' AND NOT w.delayed
            AND w.project_id >= coalesce((SELECT min(p) FROM unnest(p_projects) p), '')
          ORDER BY w.project_id, w.subject_kind, w.subject_id, w.correction_created_at, w.correction_id LIMIT 1)
        UNION ALL
        SELECT n.* FROM heads h CROSS JOIN LATERAL (
            SELECT w.project_id, w.subject_kind, w.subject_id, w.correction_created_at, w.correction_id
              FROM work_items w
             WHERE w.tenant_id = p_tenant AND w.queue = p_queue AND w.state = 'ready' AND NOT w.delayed
               AND (w.project_id, w.subject_kind, w.subject_id) > (h.project_id, h.subject_kind, h.subject_id)
             ORDER BY w.project_id, w.subject_kind, w.subject_id, w.correction_created_at, w.correction_id LIMIT 1) n
         WHERE p_projects IS NULL OR h.project_id <= (SELECT max(p) FROM unnest(p_projects) p)
    )
    SELECT h.project_id, h.subject_kind, h.subject_id
      FROM heads h
      LEFT JOIN LATERAL (
           SELECT w.leased_at FROM work_items w
            WHERE w.tenant_id = p_tenant AND w.queue = p_queue AND w.project_id = h.project_id
              AND w.subject_kind = h.subject_kind AND w.subject_id = h.subject_id AND w.leased_at IS NOT NULL
            ORDER BY w.leased_at DESC LIMIT 1) served ON true
     WHERE (p_projects IS NULL OR h.project_id = ANY(p_projects))
       AND (p_kind IS NULL OR (h.subject_kind, h.subject_id) = (p_kind, p_subject))
     ORDER BY served.leased_at NULLS FIRST, h.correction_created_at, h.correction_id
$$;

-- Leases up to as many items as there are tokens (their hashes): in rounds, from each subject its oldest. Waits for
-- nobody: what another transaction has in hand, item or correction, is passed over. A correction that no longer waits
-- here isn't handed out, even before a worker withdraws its item.
CREATE FUNCTION claim_work(
    p_tenant text, p_queue text, p_projects text[], p_kind text, p_subject text, p_tokens bytea[], p_seconds integer,
    p_by_kind text, p_by_id text)
RETURNS TABLE (item_id text, corrected text, lease_attempt integer, expires_at timestamptz) LANGUAGE plpgsql AS $$
DECLARE
    projects text[];
    kinds text[];
    subjects text[];
    given integer := 0;
    before integer;
BEGIN
    SELECT array_agg(t.project_id), array_agg(t.subject_kind), array_agg(t.subject_id)
      INTO projects, kinds, subjects
      FROM work_turns(p_tenant, p_queue, p_projects, p_kind, p_subject) t;
    LOOP
        before := given;
        FOR i IN 1..coalesce(cardinality(projects), 0) LOOP
            CONTINUE WHEN projects[i] IS NULL;
            SELECT w.id, w.correction_id INTO item_id, corrected
              FROM work_items w
             CROSS JOIN LATERAL (
                   SELECT o.status, o.sorted_to, o.superseded_by FROM corrections o
                    WHERE o.tenant_id = w.tenant_id AND o.id = w.correction_id FOR SHARE SKIP LOCKED) c
             WHERE w.tenant_id = p_tenant AND w.queue = p_queue AND w.project_id = projects[i]
               AND w.subject_kind = kinds[i] AND w.subject_id = subjects[i] AND w.state = 'ready' AND NOT w.delayed
               AND c.status IN ('open', 'with-owner') AND c.sorted_to = p_queue AND c.superseded_by IS NULL
             ORDER BY w.correction_created_at, w.correction_id LIMIT 1
               FOR UPDATE OF w SKIP LOCKED;
            IF NOT FOUND THEN
                projects[i] := NULL;
                CONTINUE;
            END IF;
            given := given + 1;
            UPDATE work_items w
               SET state = 'leased', attempt = w.attempt + 1, lease_token_sha256 = p_tokens[given], lease_ended = NULL,
                   leased_at = clock_timestamp(), leased_by_kind = p_by_kind, leased_by_id = p_by_id,
                   lease_expires_at = clock_timestamp() + p_seconds * interval '1 second'
             WHERE w.tenant_id = p_tenant AND w.id = item_id
            RETURNING w.attempt, w.lease_expires_at INTO lease_attempt, expires_at;
            RETURN NEXT;
            IF given = cardinality(p_tokens) THEN RETURN; END IF;
        END LOOP;
        EXIT WHEN given = before;
    END LOOP;
END $$;

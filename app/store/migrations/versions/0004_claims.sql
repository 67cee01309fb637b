-- Who has which work item, how earlier leases ended, and whose turn it is.

-- leased_at: of the last lease; turns: whose turns it was handed out in (see claim_work). lease_ended: how the last lease ended, if it did before the
-- item. delayed: released for some time, and not to be claimed before available_at.
ALTER TABLE work_items
    ADD COLUMN leased_at timestamptz,
    ADD COLUMN turns text,
    ADD COLUMN lease_ended text CONSTRAINT work_items_lease_ended_ck CHECK (lease_ended IN ('released', 'expired')),
    ADD COLUMN delayed boolean NOT NULL DEFAULT false,
    ADD CONSTRAINT work_items_leased_ck CHECK (state <> 'leased' OR lease_expires_at IS NOT NULL),
    ADD CONSTRAINT work_items_delayed_ck CHECK (NOT delayed OR state NOT IN ('leased', 'parked'));

DROP INDEX work_items_claim_ix;
CREATE INDEX work_items_claim_ix ON work_items
    (tenant_id, queue, project_id, subject_kind, subject_id, correction_created_at, correction_id)
    WHERE state = 'ready' AND NOT delayed;
CREATE INDEX work_items_turns_ix ON work_items (tenant_id, queue, turns, leased_at DESC) WHERE leased_at IS NOT NULL;
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

-- The subjects of a queue that have something to claim, by project. Jumps through the index from one to the next, however
-- many items each has.
CREATE FUNCTION work_subjects(p_tenant text, p_queue text)
RETURNS TABLE (project_id text, subject_kind text, subject_id text) LANGUAGE sql STABLE AS $$
    WITH RECURSIVE found AS (
        (SELECT w.project_id, w.subject_kind, w.subject_id FROM work_items w
          WHERE w.tenant_id = p_tenant AND w.queue = p_queue AND w.state = 'ready' AND NOT w.delayed
          ORDER BY w.project_id, w.subject_kind, w.subject_id LIMIT 1)
        UNION ALL
        SELECT n.* FROM found f CROSS JOIN LATERAL (
            SELECT w.project_id, w.subject_kind, w.subject_id FROM work_items w
             WHERE w.tenant_id = p_tenant AND w.queue = p_queue AND w.state = 'ready' AND NOT w.delayed
               AND (w.project_id, w.subject_kind, w.subject_id) > (f.project_id, f.subject_kind, f.subject_id)
             ORDER BY w.project_id, w.subject_kind, w.subject_id LIMIT 1) n
    )
    SELECT * FROM found
$$;

-- A correction as far as claims look at it, held against change. None if somebody else has it in hand.
CREATE FUNCTION waits_in(p_tenant text, p_correction text, p_queue text) RETURNS boolean LANGUAGE sql AS $$
    SELECT c.status IN ('open', 'with-owner') AND c.sorted_to = p_queue AND c.superseded_by IS NULL
      FROM corrections c WHERE c.tenant_id = p_tenant AND c.id = p_correction FOR SHARE SKIP LOCKED
$$;

-- The oldest item that can be claimed of the first subject after a given one, by project, kind and id; it is held. Only of
-- p_projects, if they are given, and of one subject there, if that is. Waits for nobody: what another transaction has in
-- hand, item or correction, is passed over; so is a correction that no longer waits here, even before a worker withdraws
-- its item. Sorting would look at, and lock, all that waits: the index has the order.
CREATE FUNCTION next_work(
    p_tenant text, p_queue text, p_projects text[], p_kind text, p_subject text,
    after_project text, after_kind text, after_subject text,
    OUT item_id text, OUT corrected text, OUT project text, OUT kind text, OUT subject text
) LANGUAGE plpgsql SET enable_sort = off SET enable_bitmapscan = off SET enable_seqscan = off AS $$
BEGIN
    IF p_projects IS NULL THEN
        SELECT w.id, w.correction_id, w.project_id, w.subject_kind, w.subject_id
          INTO item_id, corrected, project, kind, subject
          FROM work_items w
         WHERE w.tenant_id = p_tenant AND w.queue = p_queue AND w.state = 'ready' AND NOT w.delayed
           AND (w.project_id, w.subject_kind, w.subject_id) > (after_project, after_kind, after_subject)
           AND waits_in(w.tenant_id, w.correction_id, p_queue)
         ORDER BY w.project_id, w.subject_kind, w.subject_id, w.correction_created_at, w.correction_id LIMIT 1
           FOR UPDATE SKIP LOCKED;
    ELSIF p_kind IS NULL THEN
        SELECT x.* INTO item_id, corrected, project, kind, subject
          FROM (SELECT p AS id, p = after_project AS again FROM unnest(p_projects) p
                 WHERE p >= after_project ORDER BY p) r
         CROSS JOIN LATERAL (
               SELECT w.id, w.correction_id, w.project_id, w.subject_kind, w.subject_id FROM work_items w
                WHERE w.tenant_id = p_tenant AND w.queue = p_queue AND w.state = 'ready' AND NOT w.delayed
                  AND w.project_id = r.id AND (w.subject_kind, w.subject_id)
                      > (CASE WHEN r.again THEN after_kind ELSE '' END, CASE WHEN r.again THEN after_subject ELSE '' END)
                  AND waits_in(w.tenant_id, w.correction_id, p_queue)
                ORDER BY w.subject_kind, w.subject_id, w.correction_created_at, w.correction_id LIMIT 1
                  FOR UPDATE SKIP LOCKED) x
         LIMIT 1;
    ELSE
        SELECT x.* INTO item_id, corrected, project, kind, subject
          FROM (SELECT p AS id FROM unnest(p_projects) p WHERE p > after_project ORDER BY p) r
         CROSS JOIN LATERAL (
               SELECT w.id, w.correction_id, w.project_id, w.subject_kind, w.subject_id FROM work_items w
                WHERE w.tenant_id = p_tenant AND w.queue = p_queue AND w.state = 'ready' AND NOT w.delayed
                  AND w.project_id = r.id AND w.subject_kind = p_kind AND w.subject_id = p_subject
                  AND waits_in(w.tenant_id, w.correction_id, p_queue)
                ORDER BY w.correction_created_at, w.correction_id LIMIT 1
                  FOR UPDATE SKIP LOCKED) x
         LIMIT 1;
    END IF;
END $$;

-- Leases up to as many items as there are tokens (their hashes), subject by subject, round and round. Begins after the
-- subject that was served last by a claim that asked for the same: so they take turns from claim to claim, and claims
-- that ask for other things don't make them lose theirs. Costs a few look-ups an item, however many subjects wait.
CREATE FUNCTION claim_work(
    p_tenant text, p_queue text, p_projects text[], p_kind text, p_subject text, p_tokens bytea[], p_seconds integer,
    p_by_kind text, p_by_id text)
RETURNS TABLE (item_id text, corrected text, lease_attempt integer, expires_at timestamptz) LANGUAGE plpgsql AS $$
DECLARE
    asked text := md5(concat_ws(' ', p_projects, p_kind, p_subject));
    at record;
    given integer := 0;
    round_began_with integer := -1;     -- of a round from the first subject on; the first one may begin anywhere
BEGIN
    SELECT w.project_id AS project, w.subject_kind AS kind, w.subject_id AS subject INTO at FROM work_items w
     WHERE w.tenant_id = p_tenant AND w.queue = p_queue AND w.turns = asked AND w.leased_at IS NOT NULL
     ORDER BY w.leased_at DESC LIMIT 1;
    WHILE given < cardinality(p_tokens) LOOP
        SELECT * INTO at FROM next_work(p_tenant, p_queue, p_projects, p_kind, p_subject,
                                        coalesce(at.project, ''), coalesce(at.kind, ''), coalesce(at.subject, ''));
        IF at.item_id IS NULL THEN
            EXIT WHEN given = round_began_with;
            round_began_with := given;
            CONTINUE;
        END IF;
        given := given + 1;
        UPDATE work_items w
           SET state = 'leased', attempt = w.attempt + 1, lease_token_sha256 = p_tokens[given], lease_ended = NULL,
               leased_at = clock_timestamp(), turns = asked, leased_by_kind = p_by_kind, leased_by_id = p_by_id,
               lease_expires_at = clock_timestamp() + p_seconds * interval '1 second'
         WHERE w.tenant_id = p_tenant AND w.id = at.item_id
        RETURNING w.attempt, w.lease_expires_at INTO lease_attempt, expires_at;
        item_id := at.item_id;
        corrected := at.corrected;
        RETURN NEXT;
    END LOOP;
END $$;

-- A claim of many comes back to each subject time and again. It now goes on where it was there: from the subject's oldest on
-- it would each time pass what was handed out since the last vacuum, which the index still has.

-- The next item of one subject after a given one; see next_work.
CREATE FUNCTION next_work_of(
    p_tenant text, p_queue text, p_project text, p_kind text, p_subject text,
    after_created timestamptz, after_corrected text, OUT item_id text, OUT corrected text
) LANGUAGE plpgsql SET enable_sort = off SET enable_bitmapscan = off SET enable_seqscan = off
  SET plan_cache_mode = force_generic_plan AS $$
BEGIN
    SELECT w.id, w.correction_id INTO item_id, corrected
      FROM work_items w
     WHERE w.tenant_id = p_tenant AND w.queue = p_queue AND w.state = 'ready' AND NOT w.delayed
       AND w.project_id = p_project AND w.subject_kind = p_kind AND w.subject_id = p_subject
       AND (w.correction_created_at, w.correction_id) > (after_created, after_corrected)
       AND waits_in(w.tenant_id, w.correction_id, p_queue)
     ORDER BY w.correction_created_at, w.correction_id LIMIT 1
       FOR UPDATE SKIP LOCKED;
END $$;

-- Leases one item that is held already.
CREATE FUNCTION lease_work(
    p_tenant text, p_item text, p_token bytea, p_seconds integer, p_asked text, p_by_kind text, p_by_id text,
    OUT attempt integer, OUT expires_at timestamptz, OUT created timestamptz
) LANGUAGE sql AS $$
    UPDATE work_items w
       SET state = 'leased', attempt = w.attempt + 1, lease_token_sha256 = p_token, lease_ended = NULL,
           leased_at = clock_timestamp(), turns = p_asked, leased_by_kind = p_by_kind, leased_by_id = p_by_id,
           lease_expires_at = clock_timestamp() + p_seconds * interval '1 second'
     WHERE w.tenant_id = p_tenant AND w.id = p_item
    RETURNING w.attempt, w.lease_expires_at, w.correction_created_at
$$;

-- As before: leases up to as many items as there are tokens (their hashes), subject by subject, round and round, from the
-- subject on that follows the one served last by a claim that asked for the same. The first round looks for subjects; the
-- others go through those that it found, as long as they have something.
CREATE OR REPLACE FUNCTION claim_work(
    p_tenant text, p_queue text, p_projects text[], p_kind text, p_subject text, p_tokens bytea[], p_seconds integer,
    p_by_kind text, p_by_id text)
RETURNS TABLE (item_id text, corrected text, lease_attempt integer, expires_at timestamptz) LANGUAGE plpgsql AS $$
DECLARE
    asked text := md5(concat_ws(' ', p_projects, p_kind, p_subject));
    at record;
    lease record;
    given integer := 0;
    around boolean := false;            -- past the last subject, and on from the first
    turn integer;                       -- of whom the last item was, in what follows: a subject an entry
    projects text[] := '{}';
    kinds text[] := '{}';
    subjects text[] := '{}';
    createds timestamptz[] := '{}';     -- its last item, so far
    correcteds text[] := '{}';
BEGIN
    SELECT w.project_id AS project, w.subject_kind AS kind, w.subject_id AS subject INTO at FROM work_items w
     WHERE w.tenant_id = p_tenant AND w.queue = p_queue AND w.turns = asked AND w.leased_at IS NOT NULL
     ORDER BY w.leased_at DESC LIMIT 1;
    WHILE given < cardinality(p_tokens) LOOP
        IF turn IS NULL THEN
            SELECT * INTO at FROM next_work(p_tenant, p_queue, p_projects, p_kind, p_subject,
                                            coalesce(at.project, ''), coalesce(at.kind, ''), coalesce(at.subject, ''));
            IF at.item_id IS NULL THEN
                IF around THEN
                    turn := cardinality(subjects);
                END IF;
                around := true;
                CONTINUE;
            END IF;
            IF around AND (at.project, at.kind, at.subject) >= (projects[1], kinds[1], subjects[1]) THEN
                SELECT i INTO turn FROM generate_subscripts(subjects, 1) i
                 WHERE (projects[i], kinds[i], subjects[i]) = (at.project, at.kind, at.subject);
                turn := coalesce(turn, cardinality(subjects) + 1);  -- it came meanwhile
            END IF;
        ELSE
            EXIT WHEN cardinality(subjects) = 0;
            turn := turn % cardinality(subjects) + 1;
            SELECT projects[turn] AS project, kinds[turn] AS kind, subjects[turn] AS subject, n.* INTO at
              FROM next_work_of(p_tenant, p_queue, projects[turn], kinds[turn], subjects[turn],
                                createds[turn], correcteds[turn]) n;
            IF at.item_id IS NULL THEN
                projects := projects[:turn - 1] || projects[turn + 1:];
                kinds := kinds[:turn - 1] || kinds[turn + 1:];
                subjects := subjects[:turn - 1] || subjects[turn + 1:];
                createds := createds[:turn - 1] || createds[turn + 1:];
                correcteds := correcteds[:turn - 1] || correcteds[turn + 1:];
                turn := turn - 1;
                CONTINUE;
            END IF;
        END IF;
        given := given + 1;
        SELECT * INTO lease
          FROM lease_work(p_tenant, at.item_id, p_tokens[given], p_seconds, asked, p_by_kind, p_by_id);
        IF turn IS NULL OR turn > cardinality(subjects) THEN
            projects := projects || at.project;
            kinds := kinds || at.kind;
            subjects := subjects || at.subject;
            createds := createds || lease.created;
            correcteds := correcteds || at.corrected;
        ELSE
            createds[turn] := lease.created;
            correcteds[turn] := at.corrected;
        END IF;
        item_id := at.item_id;
        corrected := at.corrected;
        lease_attempt := lease.attempt;
        expires_at := lease.expires_at;
        RETURN NEXT;
    END LOOP;
END $$;

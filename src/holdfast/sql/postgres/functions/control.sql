-- control: what people do to jobs. Each function says what it did or why it did nothing, and puts it on record.
-- part: audited
-- Puts an outcome on record, and returns it.
CREATE OR REPLACE FUNCTION /*schema.*/audited(verb text, outcome text, chain_id text, job_id text, detail jsonb) RETURNS text
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
BEGIN
    PERFORM /*schema.*/verb_record_audit(actor => session_user::text, verb => verb, entries => jsonb_build_array(
        jsonb_build_object('chain_id', chain_id, 'job_id', job_id, 'outcome', outcome, 'detail', nullif(jsonb_strip_nulls(detail), '{}')))::text);
    RETURN outcome;
END
$body$;
-- part: lock_tail
-- The last job of the chain that a job's id names, locked together with what the verb will touch; no row if there is none.
CREATE OR REPLACE FUNCTION /*schema.*/lock_tail(chain text, touched text)
RETURNS TABLE (id text, chain_id text, status text, queue text, waiting_for smallint)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
#variable_conflict use_column
DECLARE
    locked record;
BEGIN
    -- A chain that goes on with its next job while its tail's lock is waited for is asked for again.
    FOR look IN 1 .. 10 LOOP
        SELECT * INTO locked FROM /*schema.*/verb_lock_jobs(
            jobs => jsonb_build_array(chain)::text, tails => true, neighbours => touched, patient => true);
        IF locked.id IS NULL THEN
            RETURN;
        ELSIF locked.is_tail THEN
            RETURN QUERY SELECT locked.id, locked.chain_id, locked.status, locked.queue, locked.waiting_for;
            RETURN;
        END IF;
    END LOOP;
    RAISE EXCEPTION USING ERRCODE = '55P03', MESSAGE = 'chain ' || chain || ' goes on all the time', HINT = 'try again';
END
$body$;
-- part: cancel
-- Cancels a chain that waits at once ('cancelled'), asks one that runs to end ('requested'); 'wrong_status' for one that
-- has ended, 'not_found'.
CREATE OR REPLACE FUNCTION /*schema.*/cancel(chain /*id*/uuid, reason text DEFAULT NULL) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $body$
#variable_conflict use_variable
DECLARE
    tail record;
    outcome text;
BEGIN
    SELECT * INTO tail FROM /*schema.*/lock_tail(chain::text, 'dependants');
    outcome := CASE WHEN tail.id IS NULL THEN 'not_found' WHEN /*schema.*/is_terminal(tail.status) THEN 'wrong_status'
                    WHEN tail.status = 'running' THEN 'requested' ELSE 'cancelled' END;
    IF outcome = 'requested' THEN
        PERFORM /*schema.*/verb_tell_holders(jobs => jsonb_build_array(tail.id)::text);
    END IF;
    IF outcome IN ('requested', 'cancelled') THEN
        PERFORM /*schema.*/hint_work(ARRAY(SELECT freed.queue FROM /*schema.*/verb_cancel_jobs(
            jobs => jsonb_build_array(tail.id)::text, error => jsonb_build_object(
            'type', 'Cancelled', 'message', coalesce(left(reason, 2000), 'cancelled by ' || session_user))::text, chain => true) AS freed));
    END IF;
    IF outcome = 'cancelled' THEN
        PERFORM /*schema.*/settle(ARRAY[tail.chain_id], ARRAY['unsettled']);
    END IF;
    RETURN /*schema.*/audited('cancel', outcome, tail.chain_id, tail.id,
        jsonb_build_object('reason', reason, 'asked', CASE WHEN tail.id IS NULL THEN chain END));
END
$body$;
-- part: hindrance
-- Why a job must not wait again for what it waited for; null if it may.
CREATE OR REPLACE FUNCTION /*schema.*/hindrance(job text, own_chain text) RETURNS text
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
DECLARE
    is_any_gone boolean;
    has_any_failed boolean;
    awaited_chains jsonb;
BEGIN
    SELECT bool_or(blocker.is_gone), bool_or(blocker.has_failed), jsonb_agg(blocker.chain_id)
    INTO is_any_gone, has_any_failed, awaited_chains
    FROM /*schema.*/verb_guard_blockers(jobs => jsonb_build_array(job)::text) AS blocker;
    RETURN CASE
        WHEN is_any_gone THEN 'blocker_gone'
        WHEN EXISTS (SELECT FROM (SELECT jsonb_array_elements_text(awaited_chains)
                                  UNION SELECT blocked_by_chain_id
                                  FROM /*schema.*/verb_find_waits(chains => awaited_chains::text)) AS awaited (chain_id)
                     WHERE awaited.chain_id = own_chain OR EXISTS (
                         -- It was told that this chain had ended, and will wait for it again.
                         SELECT FROM /*schema.*/job_blocker AS told JOIN /*schema.*/job AS waiting ON waiting.id = told.job_id
                         WHERE told.blocked_by_chain_id = own_chain::/*id*/uuid AND waiting.chain_id = awaited.chain_id::/*id*/uuid
                           AND waiting.status = 'blocked')) THEN 'blocker_cycle'
        WHEN has_any_failed THEN 'blocker_failed' END;
END
$body$;
-- part: retry
-- Lets a dead letter or cancelled chain begin anew ('retried'); 'wrong_status' for any other, 'key_taken' if another chain
-- holds its key now, 'blocker_gone' if what it waits for was deleted, 'blocker_cycle' if that waits for this chain now,
-- 'blocker_failed' if the chain would be cancelled again for one that has failed (retry that one first), 'not_found'.
CREATE OR REPLACE FUNCTION /*schema.*/retry(chain /*id*/uuid) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $body$
#variable_conflict use_variable
DECLARE
    asked text := jsonb_build_array(chain)::text;
    claim record;
    keys text;
    holder_id text;
    is_held boolean;
    is_entered boolean := false;
    tail record;
    outcome text;
BEGIN
    -- Keys before jobs. A key that nobody took is entered, to have a row to lock.
    FOR look IN 1 .. 10 LOOP
        SELECT * INTO claim FROM /*schema.*/verb_find_keys(jobs => asked);
        EXIT WHEN claim.key IS NULL;
        keys := jsonb_build_array(jsonb_build_object('place', 0, 'type_name', claim.type_name, 'key', claim.key,
            'chain_id', claim.chain_id, 'scope', claim.scope))::text;
        PERFORM /*schema.*/verb_lock_keys(keys => keys, patient => true);
        SELECT judged.chain_id, judged.is_holding INTO holder_id, is_held FROM /*schema.*/verb_judge_keys(keys => keys) AS judged;
        EXIT WHEN holder_id IS NOT NULL;
        PERFORM FROM /*schema.*/verb_enter_keys(keys => keys);
        is_entered := FOUND;
        EXIT WHEN is_entered;
    END LOOP;
    -- Whoever gave the key up meanwhile did so under the lock that is ours now.
    SELECT * INTO claim FROM /*schema.*/verb_find_keys(jobs => asked);
    SELECT * INTO tail FROM /*schema.*/lock_tail(chain::text, 'blockers');
    outcome := CASE
        WHEN tail.id IS NULL THEN 'not_found'
        WHEN tail.status NOT IN ('dead_letter', 'cancelled') THEN 'wrong_status'
        WHEN tail.waiting_for > 0 THEN /*schema.*/hindrance(tail.id, tail.chain_id) END;
    IF outcome IS NULL AND claim.key IS NOT NULL AND is_held AND holder_id <> tail.chain_id THEN
        outcome := 'key_taken';
    END IF;
    IF outcome IS NULL THEN
        outcome := 'retried';
        IF claim.key IS NOT NULL THEN
            PERFORM /*schema.*/verb_point_keys(keys => keys);
        END IF;
        PERFORM /*schema.*/verb_reopen_blockers(chains => jsonb_build_array(tail.chain_id)::text);
        PERFORM /*schema.*/verb_retry_jobs(jobs => jsonb_build_array(tail.id)::text);
        IF tail.waiting_for = 0 THEN
            PERFORM /*schema.*/hint_work(ARRAY[tail.queue]);
        END IF;
    END IF;
    IF is_entered AND outcome <> 'retried' THEN
        PERFORM /*schema.*/verb_return_keys(keys => keys);
    END IF;
    RETURN /*schema.*/audited('retry', outcome, tail.chain_id, tail.id,
        jsonb_build_object('asked', CASE WHEN tail.id IS NULL THEN chain END));
END
$body$;
-- part: lock_members
-- Every job of chains, locked; without patience, chains of which somebody has a job locked are left out.
CREATE OR REPLACE FUNCTION /*schema.*/lock_members(wanted jsonb, is_patient boolean)
RETURNS TABLE (id text, chain_id text, chain_index integer, is_tail boolean, status text, attempt smallint, finished_at text)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
#variable_conflict use_column
DECLARE
    members jsonb;
    moved jsonb;
BEGIN
    FOR look IN 1 .. 10 LOOP
        SELECT coalesce(jsonb_agg(to_jsonb(member)), '[]') INTO members
        FROM /*schema.*/verb_lock_chains(chains => wanted::text, patient => is_patient) AS member;
        IF members #>> '{0,sees_commits}' = 'false' THEN
            RAISE EXCEPTION USING ERRCODE = 'HF008', HINT = 'use READ COMMITTED',
                MESSAGE = 'who waits for a chain that is to be deleted, REPEATABLE READ and SERIALIZABLE may hide';
        END IF;
        SELECT jsonb_agg(gone_on.chain_id) INTO moved FROM (
            SELECT member.chain_id FROM jsonb_to_recordset(members) AS member (chain_id text, id text, is_tail boolean)
            GROUP BY member.chain_id
            HAVING bool_and(member.id IS NOT NULL) AND NOT bool_or(member.is_tail)
        ) AS gone_on;
        EXIT WHEN moved IS NULL OR NOT is_patient;
    END LOOP;
    RETURN QUERY
        SELECT member.id, member.chain_id, member.chain_index, member.is_tail, member.status, member.attempt, member.finished_at
        FROM jsonb_to_recordset(members) AS member (
            id text, chain_id text, chain_index integer, is_tail boolean, status text, attempt smallint, finished_at text)
        WHERE member.id IS NOT NULL AND member.chain_id NOT IN (
            SELECT broken.chain_id FROM jsonb_to_recordset(members) AS broken (id text, chain_id text) WHERE broken.id IS NULL
        ) AND NOT coalesce(moved ? member.chain_id, false);
END
$body$;
-- part: remove
-- Deletes the chain that holds a deduplication key and whose first job waits ('removed'); one that runs or has gone on
-- keeps on without the key and is not tried again ('key_given_up'); 'needed' if another job waits for it, 'not_found' if nobody holds the key.
CREATE OR REPLACE FUNCTION /*schema.*/remove(type_name text, key text) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $body$
#variable_conflict use_variable
DECLARE
    entry jsonb := jsonb_build_object('place', 0, 'type_name', type_name, 'key', key);
    holder record;
    tail record;
    outcome text;
BEGIN
    PERFORM /*schema.*/verb_lock_keys(keys => jsonb_build_array(entry)::text, patient => true);
    SELECT * INTO holder FROM /*schema.*/verb_judge_keys(keys => jsonb_build_array(entry)::text);
    IF holder.is_holding IS NOT true THEN
        RETURN /*schema.*/audited('remove', 'not_found', NULL, NULL, jsonb_build_object('type_name', type_name, 'key', key));
    END IF;
    SELECT * INTO tail FROM /*schema.*/lock_members(jsonb_build_array(holder.chain_id), true) AS member WHERE member.is_tail;
    outcome := CASE
        WHEN tail.id IS NULL OR tail.chain_index > 0 OR tail.status NOT IN ('pending', 'blocked') THEN 'key_given_up'
        WHEN EXISTS (SELECT FROM /*schema.*/verb_find_dependants(chains => jsonb_build_array(holder.chain_id)::text) AS dependant
                     WHERE dependant.is_unfinished AND dependant.chain_id <> holder.chain_id) THEN 'needed'
        ELSE 'removed' END;
    IF outcome <> 'needed' THEN
        PERFORM /*schema.*/verb_return_keys(keys => jsonb_build_array(entry || jsonb_build_object('chain_id', holder.chain_id))::text);
    END IF;
    IF outcome = 'removed' THEN
        PERFORM /*schema.*/hint_work(ARRAY(SELECT freed.queue FROM /*schema.*/verb_delete_chains(
            chains => jsonb_build_array(holder.chain_id)::text, jobs => jsonb_build_array(tail.id)::text) AS freed));
    ELSIF outcome = 'key_given_up' AND tail.id IS NOT NULL THEN
        -- A running attempt is the last one; of a chain that waits for its next step, the next one is.
        PERFORM /*schema.*/verb_give_up_key(chain => holder.chain_id, job => tail.id, max_attempts => CASE
            WHEN tail.status = 'running' THEN tail.attempt::integer
            WHEN tail.status IN ('pending', 'blocked') THEN tail.attempt + 1 END);
    END IF;
    RETURN /*schema.*/audited('remove', outcome, holder.chain_id, tail.id, jsonb_build_object('type_name', type_name, 'key', key));
END
$body$;
-- part: release_workers
-- Takes everything from workers that are known to be gone, at once: their jobs go back untouched. Returns how many.
-- One that is alive after all finds its leases lost.
CREATE OR REPLACE FUNCTION /*schema.*/release_workers(workers text[]) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $body$
DECLARE
    worker text;
    released integer := 0;
BEGIN
    FOR worker IN SELECT DISTINCT name FROM unnest(workers) AS asked (name) WHERE name IS NOT NULL ORDER BY name LOOP
        PERFORM /*schema.*/verb_tell_holders(jobs => (
            SELECT coalesce(jsonb_agg(job.id), '[]') FROM /*schema.*/job AS job
            WHERE job.status = 'running' AND job.leased_by = worker)::text);
        released := released + /*schema.*/retire(worker);
        PERFORM /*schema.*/audited('release_workers', 'released', NULL, NULL, jsonb_build_object('worker', worker));
    END LOOP;
    RETURN released;
END
$body$;
-- part: remove_finished
-- Removes chains that were found as `chains` says (id, finished_at, is_archived), into the archive or for good, and returns how
-- many went: not what somebody has locked, needs, or has retried since. Chains that a row of the application refers to stay:
-- if any of them does, halves are tried, until it is clear which.
CREATE OR REPLACE FUNCTION /*schema.*/remove_finished(chains jsonb) RETURNS integer
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
#variable_conflict use_variable
DECLARE
    size integer := jsonb_array_length(chains);
    members jsonb;
    going jsonb;
BEGIN
    IF size = 0 THEN
        RETURN 0;
    END IF;
    BEGIN
        SELECT jsonb_agg(to_jsonb(locked)) INTO members FROM /*schema.*/lock_members(
            (SELECT jsonb_agg(chain.value -> 'id') FROM jsonb_array_elements(chains) AS chain), false) AS locked;
        -- Under the locks nobody can retry them, continue them or come to wait for them: look once more.
        SELECT jsonb_agg(tail.chain_id) INTO going
        FROM jsonb_to_recordset(members) AS tail (chain_id text, is_tail boolean, finished_at text)
        JOIN jsonb_to_recordset(chains) AS seen (id text, finished_at text)
            ON seen.id = tail.chain_id AND seen.finished_at = tail.finished_at
        WHERE tail.is_tail;
        SELECT coalesce(jsonb_agg(asked.id), '[]') INTO going FROM jsonb_array_elements_text(going) AS asked (id)
        WHERE asked.id NOT IN (SELECT needed.chain_id FROM /*schema.*/verb_find_needed(chains => going::text) AS needed);
        IF chains @> '[{"is_archived": true}]' THEN
            PERFORM /*schema.*/verb_archive_chains(jobs => (
                SELECT coalesce(jsonb_agg(member.id), '[]') FROM jsonb_to_recordset(members) AS member (id text, chain_id text)
                JOIN jsonb_to_recordset(chains) AS chain (id text, is_archived boolean) ON chain.id = member.chain_id
                WHERE chain.is_archived AND going ? member.chain_id)::text);
        END IF;
        PERFORM /*schema.*/verb_delete_chains(chains => going::text, jobs => (
            SELECT coalesce(jsonb_agg(member.id), '[]') FROM jsonb_to_recordset(members) AS member (id text, chain_id text)
            WHERE going ? member.chain_id)::text);
        -- A foreign key that is looked at no sooner than at the commit would undo all of it.
        IF EXISTS (SELECT FROM pg_constraint WHERE contype = 'f' AND condeferrable AND confrelid = '/*schema.*/job'::regclass) THEN
            SET CONSTRAINTS ALL IMMEDIATE;
        END IF;
        RETURN jsonb_array_length(going);
    EXCEPTION WHEN foreign_key_violation OR restrict_violation THEN
        IF size = 1 THEN
            RETURN 0;
        END IF;
    END;
    RETURN (
        SELECT sum(/*schema.*/remove_finished(half.chains)) FROM (
            SELECT jsonb_agg(chain.value) AS chains FROM jsonb_array_elements(chains) WITH ORDINALITY AS chain (value, place)
            GROUP BY chain.place > size / 2
        ) AS half);
END
$body$;
-- part: prune
-- Removes up to `max_chains` chains that ended longer ago than `older_than`, oldest first, and returns how many: call again
-- while it returns as many. As types and settings say they go to the archive, or for good. Chains stay that a job needs which
-- has not completed, that somebody listens for or has locked, and those that a row of the application refers to.
CREATE OR REPLACE FUNCTION /*schema.*/prune(older_than interval, max_chains integer DEFAULT 1000) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $body$
#variable_conflict use_variable
DECLARE
    page_size CONSTANT integer := 500;
    keep_ms bigint;
    page jsonb;
    place jsonb;
    chains jsonb;
    is_cut boolean;
    removed integer := 0;
    -- who goes to the archive: what operators have set, by type and under '' for all, and what types say
    settings jsonb := (SELECT coalesce(jsonb_object_agg(substr(setting.name, length('archive:') + 1), setting.value::jsonb), '{}')
                       FROM /*schema.*/setting AS setting WHERE setting.name = 'archive' OR setting.name LIKE 'archive:%');
    types jsonb := (SELECT coalesce(jsonb_object_agg(job_type.name, job_type.keep::jsonb -> 'archive'), '{}')
                    FROM /*schema.*/job_type AS job_type WHERE job_type.keep::jsonb ? 'archive');
BEGIN
    IF older_than IS NULL OR older_than < interval '0' THEN
        PERFORM /*schema.*/refuse_option('older_than', older_than::text, 'give an interval of at least 0');
    ELSIF max_chains IS NULL OR max_chains NOT BETWEEN 1 AND 10000 THEN
        PERFORM /*schema.*/refuse_option('max_chains', max_chains::text, 'give a number from 1 to 10000');
    END IF;
    -- Months are as long as the last ones were.
    keep_ms := ceil(extract(epoch FROM statement_timestamp() - (statement_timestamp() - older_than)) * 1000);
    LOOP
        SELECT jsonb_agg(to_jsonb(finished) ORDER BY finished.finished_at, finished.seq) INTO page
        FROM /*schema.*/verb_find_finished(
            after => (place ->> 'finished_at')::timestamptz, after_seq => coalesce((place ->> 'seq')::bigint, -1),
            keep_ms => keep_ms, "limit" => page_size) AS finished;
        EXIT WHEN page IS NULL;
        SELECT coalesce(jsonb_agg(to_jsonb(chain) ORDER BY chain.finished_at, chain.seq), '[]') INTO chains FROM (
            SELECT finished.chain_id AS id, finished.finished_at, finished.seq,
                   coalesce(settings -> finished.chain_type_name, settings -> '', types -> finished.chain_type_name, 'false')
                   AS is_archived
            FROM jsonb_to_recordset(page) AS finished (
                chain_id text, chain_type_name text, finished_at text, seq bigint, is_awaited boolean)
            WHERE NOT finished.is_awaited AND finished.chain_id NOT IN (
                SELECT needed.chain_id FROM /*schema.*/verb_find_needed(chains => (
                    SELECT jsonb_agg(each.value -> 'chain_id') FROM jsonb_array_elements(page) AS each)::text) AS needed)
            ORDER BY finished.finished_at, finished.seq
            LIMIT max_chains - removed
        ) AS chain;
        is_cut := jsonb_array_length(chains) = max_chains - removed;
        place := CASE WHEN is_cut THEN chains ELSE page END -> -1;
        IF chains @> '[{"is_archived": true}]' THEN
            PERFORM /*schema.*/verb_open_archive();
        END IF;
        removed := removed + /*schema.*/remove_finished(chains);
        EXIT WHEN removed = max_chains OR NOT is_cut AND jsonb_array_length(page) < page_size;
    END LOOP;
    RETURN removed;
END
$body$;

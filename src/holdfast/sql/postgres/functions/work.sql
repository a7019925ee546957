-- work: claiming, finishing and giving back jobs, for workers that speak nothing but SQL. What looks at jobs does so by an
--   index, as on our own connections: a plan made for a small table stays when the table has grown.
-- part: register_type
-- A job type that a worker in another language runs: what a Python worker writes down for each of its types.
CREATE OR REPLACE FUNCTION /*schema.*/register_type(
    name text,
    queue text DEFAULT 'default',
    priority integer DEFAULT 0,
    max_attempts integer DEFAULT 5,
    retry_initial interval DEFAULT '1 second',
    retry_factor numeric DEFAULT 2,
    retry_maximum interval DEFAULT '1 hour',
    retry_jitter numeric DEFAULT 0.1,
    timeout interval DEFAULT NULL,
    expires interval DEFAULT NULL
) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $body$
#variable_conflict use_variable
BEGIN
    IF retry_factor IS NULL OR retry_factor NOT BETWEEN 1 AND 1000000 THEN
        PERFORM /*schema.*/refuse_option('retry_factor', retry_factor::text, 'give a number from 1 to 1000000');
    ELSIF retry_jitter IS NULL OR retry_jitter NOT BETWEEN 0 AND 1 THEN
        PERFORM /*schema.*/refuse_option('retry_jitter', retry_jitter::text, 'give a number from 0 to 1');
    ELSIF timeout <= interval '0' OR expires <= interval '0' THEN
        PERFORM /*schema.*/refuse_option('timeout and expires', '0', 'give more than nothing, or leave them out');
    END IF;
    PERFORM /*schema.*/verb_register_types(types => jsonb_build_array(jsonb_build_object(
        'name', coalesce(/*schema.*/checked_name('name', name), /*schema.*/checked_name('name', '')),
        'queue', coalesce(/*schema.*/checked_name('queue', queue), 'default'),
        'priority', coalesce(/*schema.*/checked_number('priority', priority::text, -32768, 32767), 0),
        'max_attempts', coalesce(/*schema.*/checked_number('max_attempts', max_attempts::text, 1, 32767), 5),
        'retry', jsonb_build_object(
            'max_attempts', coalesce(max_attempts, 5),
            'initial', coalesce(/*schema.*/checked_duration('retry_initial', to_jsonb(extract(epoch FROM retry_initial))), 1000) / 1000.0,
            'factor', retry_factor,
            'maximum', coalesce(/*schema.*/checked_duration('retry_maximum', to_jsonb(extract(epoch FROM retry_maximum))), 3600000) / 1000.0,
            'jitter', retry_jitter
        ),
        'timeout_ms', /*schema.*/checked_duration('timeout', to_jsonb(extract(epoch FROM timeout))),
        'expires_ms', /*schema.*/checked_duration('expires', to_jsonb(extract(epoch FROM expires)))
    ))::text);
END
$body$;
-- part: heartbeat
-- A worker lives; claim and renew say so as well. Others take one that is silent for `dead_after` (20 s) for dead.
CREATE OR REPLACE FUNCTION /*schema.*/heartbeat(worker text, queues text[] DEFAULT NULL, metadata jsonb DEFAULT NULL) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $body$
#variable_conflict use_variable
DECLARE
    served jsonb;
BEGIN
    IF worker IS NULL THEN
        PERFORM /*schema.*/refuse_option('worker', worker, 'give a name that no other worker has, such as host, process id and something random');
    END IF;
    IF queues IS NOT NULL OR metadata IS NOT NULL
       OR NOT EXISTS (SELECT FROM /*schema.*/verb_heartbeat(worker => worker, status => 'alive')) THEN
        SELECT coalesce(to_jsonb(queues), known.queues::jsonb), coalesce(metadata, known.metadata::jsonb)
        INTO served, metadata
        FROM (SELECT) AS one LEFT JOIN /*schema.*/worker AS known ON known.id = worker;
        PERFORM /*schema.*/verb_register_worker(
            worker => /*schema.*/checked_name('worker', worker), version => 'sql',
            queues => coalesce(served, '[]')::text, metadata => coalesce(metadata, '{}')::text);
    END IF;
END
$body$;
-- part: retire
-- A worker leaves: what it still holds goes back untouched.
CREATE OR REPLACE FUNCTION /*schema.*/retire(worker text) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET jit = off AS $body$
#variable_conflict use_variable
DECLARE
    released text[] := ARRAY(
        SELECT given_back.id FROM /*schema.*/verb_release_orphans(worker => worker, known => '[]') AS given_back
    );
    queues text[] := ARRAY(
        SELECT DISTINCT job.queue FROM /*schema.*/job AS job
        WHERE job.id = ANY (released::/*id*/uuid[]) AND job.status = 'pending'
    );
BEGIN
    PERFORM /*schema.*/verb_retire_worker(worker => worker);
    PERFORM /*schema.*/hint_work(queues);
    RETURN cardinality(released);
END
$body$;
-- part: claim
-- Up to `max_jobs` jobs in claim order, under a lease. A suspect (a job whose worker died) comes alone, and only to a
-- worker that holds nothing: if it kills this one too, nobody else is to blame. While one runs nothing else is claimed.
CREATE OR REPLACE FUNCTION /*schema.*/claim(
    worker text, queues text[] DEFAULT '{default}', max_jobs integer DEFAULT 1, lease interval DEFAULT '60 seconds'
) RETURNS TABLE (
    id /*id*/uuid, lease_generation bigint, type_name text, input json, attempt integer, queue text, chain_id /*id*/uuid,
    tenant text, headers json, timeout_ms bigint, leased_until timestamptz
)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET jit = off AS $body$
#variable_conflict use_variable
DECLARE
    lease_ms bigint := /*schema.*/checked_duration('lease', to_jsonb(extract(epoch FROM lease)));
    wanted text := to_jsonb(queues)::text;
    claimed text[] := '{}';
    lanes jsonb;
    has_suspect boolean;
    held smallint;
BEGIN
    IF lease_ms IS NULL OR lease_ms < 1000 THEN
        PERFORM /*schema.*/refuse_option('lease', lease::text, 'give at least a second');
    ELSIF max_jobs IS NULL OR max_jobs NOT BETWEEN 1 AND 1000 THEN
        PERFORM /*schema.*/refuse_option('max_jobs', max_jobs::text, 'give a number from 1 to 1000');
    ELSIF queues IS NULL OR cardinality(queues) = 0 OR array_position(queues, NULL) IS NOT NULL THEN
        PERFORM /*schema.*/refuse_option('queues', queues::text, 'give an array of the names of queues');
    END IF;
    PERFORM /*schema.*/heartbeat(worker, queues);
    SELECT max(job.crash_count) INTO held FROM /*schema.*/job AS job WHERE job.status = 'running' AND job.leased_by = worker;
    IF held > 0 THEN
        RETURN;
    END IF;
    SELECT coalesce(bool_or(lane.is_suspect) FILTER (WHERE lane.due_in_ms = 0), false),
           jsonb_agg(jsonb_build_object(
               'queue', lane.queue, 'priority', lane.priority, 'seq', lane.seq - 1,
               'ready_at', (extract(epoch FROM lane.ready_at - timestamptz '2000-01-01 00:00:00+00') * 1000000)::bigint
           ) ORDER BY lane.priority, lane.ready_at, lane.seq) FILTER (WHERE NOT lane.is_suspect)
    INTO has_suspect, lanes
    FROM /*schema.*/verb_find_lanes(queues => wanted) AS lane;
    IF held IS NULL AND has_suspect THEN
        claimed := ARRAY(SELECT suspect.id FROM /*schema.*/verb_claim_suspect(
            worker => worker, queues => wanted, lease_ms => lease_ms) AS suspect);
    END IF;
    IF claimed = '{}' AND lanes IS NOT NULL THEN
        claimed := ARRAY(
            SELECT taken.id FROM /*schema.*/verb_claim_jobs(
                worker => worker, lanes => lanes::text, lease_ms => lease_ms, prefetch => false, drops => '[]',
                "limit" => max_jobs) AS taken
        );
    END IF;
    RETURN QUERY
        SELECT job.id, job.lease_generation, job.type_name, job.input, job.attempt::integer, job.queue, job.chain_id,
               job.tenant, job.headers, job.timeout_ms, job.leased_until
        FROM /*schema.*/job AS job
        WHERE job.id = ANY (claimed::/*id*/uuid[])
        ORDER BY job.priority, job.ready_at, job.seq;
END
$body$;
-- part: hold_job
-- The fence: raises unless the job is running under this generation, and keeps it so until the transaction ends.
-- True for a job that was completed under this generation: the answer to the first try may have been lost.
CREATE OR REPLACE FUNCTION /*schema.*/hold_job(id /*id*/uuid, lease_generation bigint, verb text) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET jit = off AS $body$
#variable_conflict use_variable
DECLARE
    found_status text;
    found_generation bigint;
    found_completer text;
BEGIN
    SELECT job.status, job.lease_generation, job.completed_by INTO found_status, found_generation, found_completer
    FROM /*schema.*/job AS job WHERE job.id = id FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION USING ERRCODE = 'HF002', MESSAGE = verb || ': no job has the id ' || coalesce(id::text, 'NULL'),
            HINT = 'it has been deleted; stop working on it';
    ELSIF found_generation IS DISTINCT FROM lease_generation THEN
        RAISE EXCEPTION USING ERRCODE = 'HF003',
            MESSAGE = verb || ': job ' || id || ' is at lease generation ' || found_generation || ', not ' || coalesce(lease_generation::text, 'NULL'),
            HINT = 'somebody else has it, or had it; stop working on it';
    ELSIF found_status = 'completed' AND found_completer IS NOT NULL AND verb = 'complete' THEN
        RETURN true;
    ELSIF found_status <> 'running' THEN
        RAISE EXCEPTION USING ERRCODE = 'HF004', MESSAGE = verb || ': job ' || id || ' is ' || found_status || ', not running',
            HINT = 'stop working on it';
    END IF;
    RETURN false;
END
$body$;
-- part: settle
-- What the end of a job means for those who wait: tell them, and wake who runs them.
CREATE OR REPLACE FUNCTION /*schema.*/settle(subjects text[], outcomes text[]) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
DECLARE
    woken text[] := ARRAY(SELECT subject FROM unnest(subjects, outcomes) AS told (subject, outcome) WHERE outcome = 'woken');
    unsettled jsonb := (SELECT jsonb_agg(subject) FROM unnest(subjects, outcomes) AS told (subject, outcome)
                        WHERE outcome = 'unsettled');
BEGIN
    IF unsettled IS NOT NULL THEN
        woken := woken || ARRAY(
            SELECT settled.woken_queue FROM /*schema.*/verb_settle_chains(chains => unsettled::text, patient => true) AS settled
            WHERE settled.woken_queue IS NOT NULL);
    END IF;
    PERFORM /*schema.*/hint_work(woken);
END
$body$;
-- part: renew
-- Holds the job for longer; true if somebody has asked for it to be cancelled: stop, and call fail.
CREATE OR REPLACE FUNCTION /*schema.*/renew(id /*id*/uuid, lease_generation bigint, lease interval DEFAULT '60 seconds')
RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET jit = off AS $body$
#variable_conflict use_variable
DECLARE
    lease_ms bigint := /*schema.*/checked_duration('lease', to_jsonb(extract(epoch FROM lease)));
BEGIN
    IF lease_ms IS NULL OR lease_ms < 1000 THEN
        PERFORM /*schema.*/refuse_option('lease', lease::text, 'give at least a second');
    END IF;
    PERFORM /*schema.*/hold_job(id, lease_generation, 'renew');
    PERFORM /*schema.*/verb_renew_leases(lease_ms => lease_ms, leases => jsonb_build_array(
        jsonb_build_object('id', id, 'lease_generation', lease_generation))::text);
    PERFORM /*schema.*/heartbeat((SELECT job.leased_by FROM /*schema.*/job AS job WHERE job.id = id));
    RETURN (SELECT job.cancel_requested_at IS NOT NULL FROM /*schema.*/job AS job WHERE job.id = id);
END
$body$;
-- part: complete
-- Finishes the job; again under the same generation changes nothing.
CREATE OR REPLACE FUNCTION /*schema.*/complete(id /*id*/uuid, lease_generation bigint, output jsonb DEFAULT NULL) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET jit = off AS $body$
#variable_conflict use_variable
BEGIN
    IF NOT /*schema.*/hold_job(id, lease_generation, 'complete') THEN
        PERFORM /*schema.*/settle(array_agg(told.id), array_agg(told.outcome))
        FROM /*schema.*/verb_complete_jobs(
            worker => (SELECT job.leased_by FROM /*schema.*/job AS job WHERE job.id = id),
            jobs => jsonb_build_array(jsonb_build_object(
                'id', id, 'lease_generation', lease_generation, 'output', output::text))::text
        ) AS told;
    END IF;
END
$body$;
-- part: retry_delay
-- How long to wait after an attempt failed, by the policy of the job's type.
CREATE OR REPLACE FUNCTION /*schema.*/retry_delay(retry jsonb, attempt integer) RETURNS bigint
LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS $body$
    SELECT least(ceil(least(
               coalesce((retry ->> 'initial')::float8, 1)
               * power(least(coalesce((retry ->> 'factor')::float8, 2), 1e6), least(greatest(attempt, 1) - 1, 40)),
               coalesce((retry ->> 'maximum')::float8, 3600)
           ) * (1 + coalesce((retry ->> 'jitter')::float8, 0.1) * (random() * 2 - 1)) * 1000), 36600 * 86400000.0)::bigint
$body$;
-- part: fail
-- Ends the attempt: another one after `delay` (or by the type's retry policy), or a dead letter, or cancelled if somebody
-- asked for that. Returns which; again under the same generation it says so again.
CREATE OR REPLACE FUNCTION /*schema.*/fail(
    id /*id*/uuid,
    lease_generation bigint,
    message text,
    error_type text DEFAULT 'Error',
    traceback text DEFAULT NULL,
    delay interval DEFAULT NULL,
    is_final boolean DEFAULT false
) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET jit = off AS $body$
#variable_conflict use_variable
DECLARE
    delay_ms bigint := /*schema.*/checked_duration('delay', to_jsonb(extract(epoch FROM delay)));
    kind /*schema.*/job_type%ROWTYPE;
    worker text;
    attempt integer;
    subjects text[];
    outcomes text[];
    verdict text;
BEGIN
    SELECT job_attempt.outcome INTO verdict FROM /*schema.*/job_attempt AS job_attempt
    WHERE job_attempt.job_id = id AND job_attempt.lease_generation = lease_generation
      AND job_attempt.outcome IN ('failed', 'cancelled');
    IF FOUND THEN
        SELECT job.status INTO verdict FROM /*schema.*/job AS job
        WHERE job.id = id AND job.lease_generation = lease_generation AND job.status IN ('pending', 'dead_letter', 'cancelled');
        IF FOUND THEN
            RETURN verdict;
        END IF;
    END IF;
    PERFORM /*schema.*/hold_job(id, lease_generation, 'fail');
    SELECT job.leased_by, job.attempt INTO worker, attempt FROM /*schema.*/job AS job WHERE job.id = id;
    SELECT job_type.* INTO kind FROM /*schema.*/job AS job JOIN /*schema.*/job_type AS job_type ON job_type.name = job.type_name
    WHERE job.id = id;
    SELECT array_agg(told.id), array_agg(told.outcome) INTO subjects, outcomes
    FROM /*schema.*/verb_fail_jobs(worker => worker, jobs => jsonb_build_array(jsonb_build_object(
        'id', id, 'lease_generation', lease_generation,
        'error', jsonb_strip_nulls(jsonb_build_object(
            'type', coalesce(left(error_type, 200), 'Error'), 'message', right(coalesce(message, ''), 2000),
            'traceback', right(traceback, 20000))),
        'delay_ms', coalesce(delay_ms, /*schema.*/retry_delay(kind.retry::jsonb, attempt)),
        'is_final', coalesce(is_final, false),
        'max_attempts', coalesce(kind.max_attempts, 5)
    ))::text) AS told;
    PERFORM /*schema.*/settle(subjects, outcomes);
    RETURN outcomes[array_position(subjects, id::text)];
END
$body$;
-- part: snooze
-- Puts the job off and gives the attempt back.
CREATE OR REPLACE FUNCTION /*schema.*/snooze(id /*id*/uuid, lease_generation bigint, delay interval) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $body$
#variable_conflict use_variable
DECLARE
    delay_ms bigint := /*schema.*/checked_duration('delay', to_jsonb(extract(epoch FROM delay)));
BEGIN
    IF delay_ms IS NULL THEN
        PERFORM /*schema.*/refuse_option('delay', NULL, 'give an interval');
    END IF;
    PERFORM /*schema.*/hold_job(id, lease_generation, 'snooze');
    PERFORM /*schema.*/settle(array_agg(told.id), array_agg(told.outcome))
    FROM /*schema.*/verb_snooze_jobs(jobs => jsonb_build_array(jsonb_build_object(
        'id', id, 'lease_generation', lease_generation, 'delay_ms', delay_ms))::text) AS told;
END
$body$;
-- part: release
-- Gives the job back untouched: attempt refunded, place kept.
CREATE OR REPLACE FUNCTION /*schema.*/release(id /*id*/uuid, lease_generation bigint) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET jit = off AS $body$
#variable_conflict use_variable
BEGIN
    PERFORM /*schema.*/hold_job(id, lease_generation, 'release');
    PERFORM /*schema.*/settle(array_agg(told.id), array_agg(told.outcome))
    FROM /*schema.*/verb_release_jobs(jobs => jsonb_build_array(jsonb_build_object(
        'id', id, 'lease_generation', lease_generation))::text) AS told;
    PERFORM /*schema.*/hint_work(ARRAY(
        SELECT job.queue FROM /*schema.*/job AS job WHERE job.id = id AND job.status = 'pending'));
END
$body$;

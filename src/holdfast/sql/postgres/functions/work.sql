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
       OR NOT EXISTS (SELECT FROM /*schema.*/verb_heartbeat(worker => worker, status => 'alive', dead_after_ms => 20000)) THEN
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
    subjects text[];
    outcomes text[];
BEGIN
    SELECT array_agg(given_back.id), array_agg(given_back.outcome) INTO subjects, outcomes
    FROM /*schema.*/verb_release_orphans(worker => worker, known => '[]', started => true) AS given_back;
    PERFORM /*schema.*/verb_retire_worker(worker => worker);
    PERFORM /*schema.*/settle(subjects, outcomes);
    RETURN (SELECT count(*) FROM unnest(outcomes) AS given_back (outcome) WHERE outcome IN ('pending', 'cancelled'));
END
$body$;
-- part: claim_lanes
-- What a claim brings from these lanes; of each no more than `most`. What it sets aside is out of the way of the next one,
-- so where only such jobs were met, it is made again; and so where somebody else took a job of the same partition key
-- meanwhile, as far as the isolation level lets the next one see that.
CREATE OR REPLACE FUNCTION /*schema.*/claim_lanes(
    worker text, lanes jsonb, lease_ms bigint, room integer, most bigint DEFAULT NULL
) RETURNS text[]
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $body$
#variable_conflict use_variable
DECLARE
    found text[];
    aside bigint;
BEGIN
    FOR try IN 1..100 LOOP
        BEGIN
            SELECT coalesce(array_agg(taken.id) FILTER (WHERE taken.id IS NOT NULL), '{}'),
                   coalesce(sum(taken.lease_generation) FILTER (WHERE taken.id IS NULL), 0)
            INTO found, aside
            FROM /*schema.*/verb_claim_jobs(
                worker => worker, lanes => lanes::text, lease_ms => lease_ms, prefetch => false, drops => '[]', run => 0,
                most => most, "limit" => room) AS taken;
        EXCEPTION WHEN unique_violation THEN
            found := '{}';
            aside := CASE WHEN current_setting('transaction_isolation') IN ('read committed', 'read uncommitted') THEN 1 ELSE 0 END;
        END;
        EXIT WHEN found <> '{}' OR aside = 0;
    END LOOP;
    RETURN found;
END
$body$;
-- part: claim_first_suspect
-- A suspect that may run, as a list; one that may not does not hide the others.
CREATE OR REPLACE FUNCTION /*schema.*/claim_first_suspect(worker text, queues text, lease_ms bigint) RETURNS text[]
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $body$
#variable_conflict use_variable
DECLARE
    found text[];
    met bigint[];
    passed bigint[] := '{}';
BEGIN
    FOR try IN 1..20 LOOP
        SELECT coalesce(array_agg(taken.id) FILTER (WHERE taken.id IS NOT NULL), '{}'),
               coalesce(array_agg(taken.seq) FILTER (WHERE taken.id IS NULL), '{}')
        INTO found, met
        FROM /*schema.*/verb_claim_suspect(
            worker => worker, queues => queues, lease_ms => lease_ms, passed => to_jsonb(passed)::text) AS taken;
        EXIT WHEN found <> '{}' OR met = '{}';
        passed := passed || met;
    END LOOP;
    RETURN found;
EXCEPTION WHEN unique_violation THEN
    RETURN '{}';  -- somebody else took a job of the same partition key meanwhile
END
$body$;
-- part: claim
-- Up to `max_jobs` jobs in claim order, under a lease. A suspect (a job whose worker died) comes alone, and only to a
-- worker that holds nothing: if it kills this one too, nobody else is to blame. While one runs nothing else is claimed.
-- Limited queues come one by one, as far as the worker's share of each goes, and those that are fair by tenant; all others
-- together. Which of these comes first is drawn anew each time, each queue counting once: one that always came first would
-- leave nothing to the others as long as it has enough. Of each, jobs that go by tenant come in their turn, beside which the
-- others are one tenant more. Whose turn is next is kept with the worker, by queue.
-- Of queues and of concurrency keys with limits nothing comes at REPEATABLE READ and SERIALIZABLE: who counts there does not
-- see what others have claimed meanwhile.
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
    limited text[] := ARRAY(
        SELECT known.name FROM /*schema.*/queue AS known
        WHERE known.name = ANY (queues) AND (known.concurrency IS NOT NULL OR known.rate IS NOT NULL)
        ORDER BY known.name
    );
    rooms jsonb := '{}';
    wanted text;
    claimed text[] := '{}';
    lanes jsonb;
    some_lanes jsonb;
    one text;
    has_suspect boolean;
    held smallint;
    room integer;
    own integer;
    fair text[];
    apart text[];
    turns jsonb;
    seen text;
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
    FOREACH one IN ARRAY limited LOOP
        rooms := rooms || jsonb_build_object(one, /*schema.*/open_share(worker, one, max_jobs));
    END LOOP;
    SELECT to_jsonb(array_agg(name))::text INTO wanted FROM unnest(queues) AS asked (name)
    WHERE coalesce((rooms ->> name)::integer, 1) > 0;
    SELECT coalesce(bool_or(lane.is_suspect) FILTER (WHERE lane.due_in_ms = 0), false),
           jsonb_agg(jsonb_build_object(
               'queue', lane.queue, 'priority', lane.priority, 'seq', lane.seq - 1,
               'ready_at', (extract(epoch FROM lane.ready_at - timestamptz '2000-01-01 00:00:00+00') * 1000000)::bigint
           ) ORDER BY lane.priority, lane.ready_at, lane.seq) FILTER (WHERE NOT lane.is_suspect AND NOT lane.is_fair),
           array_agg(lane.queue) FILTER (WHERE lane.is_fair AND lane.due_in_ms = 0)
    INTO has_suspect, lanes, fair
    FROM /*schema.*/verb_find_lanes(queues => coalesce(wanted, '[]')) AS lane;
    IF held IS NULL AND has_suspect THEN
        claimed := /*schema.*/claim_first_suspect(worker, wanted, lease_ms);
    END IF;
    IF claimed = '{}' THEN
        apart := array_cat(limited, ARRAY(SELECT unnest(fair) EXCEPT SELECT unnest(limited)));
        FOREACH one IN ARRAY ARRAY(
            SELECT drawn.name FROM (
                SELECT alone.name, 1 AS weight FROM unnest(apart) AS alone (name)
                UNION ALL
                SELECT NULL, greatest(cardinality(queues) - cardinality(apart), 1)
            ) AS drawn
            ORDER BY random() ^ (1.0 / drawn.weight) DESC
        ) LOOP
            SELECT jsonb_agg(lane ORDER BY place) INTO some_lanes FROM jsonb_array_elements(lanes) WITH ORDINALITY AS asked (lane, place)
            WHERE CASE WHEN one IS NULL THEN NOT rooms ? (lane ->> 'queue') AND lane ->> 'queue' <> ALL (coalesce(fair, '{}'))
                       ELSE lane ->> 'queue' = one END;
            room := least(max_jobs - cardinality(claimed), coalesce((rooms ->> one)::integer, max_jobs));
            turns := NULL;
            IF one = ANY (fair) AND room > 0 THEN
                SELECT coalesce(known.metadata::jsonb #>> ARRAY['turn_after', one], '') INTO seen
                FROM /*schema.*/worker AS known WHERE known.id = worker;
                SELECT jsonb_agg(jsonb_build_object('queue', one, 'tenant', best.tenant, 'priority', best.priority, 'seq', best.seq - 1,
                           'ready_at', (extract(epoch FROM best.ready_at - timestamptz '2000-01-01 00:00:00+00') * 1000000)::bigint
                       ) ORDER BY best.place)
                INTO turns
                FROM (
                    SELECT DISTINCT ON (lane.place) lane.*
                    FROM /*schema.*/verb_find_tenants(queue => one, after => seen, "limit" => 32) AS lane
                    WHERE lane.due_in_ms = 0 ORDER BY lane.place, lane.priority
                ) AS best
                WHERE best.place <= 32;
            END IF;
            IF turns IS NOT NULL THEN
                own := CASE WHEN some_lanes IS NULL THEN 0
                            ELSE floor(room / (jsonb_array_length(turns) + 1.0) + random())::integer END;
                IF room > own THEN
                    SELECT tenant.lane ->> 'tenant' INTO seen
                    FROM jsonb_array_elements(turns) WITH ORDINALITY AS tenant (lane, place)
                    WHERE tenant.place <= room - own ORDER BY tenant.place DESC LIMIT 1;
                    UPDATE /*schema.*/worker AS known
                    SET metadata = known.metadata::jsonb || jsonb_build_object('turn_after',
                        coalesce(known.metadata::jsonb -> 'turn_after', '{}') || jsonb_build_object(one, seen))
                    WHERE known.id = worker;
                    claimed := claimed || /*schema.*/claim_lanes(
                        worker, turns, lease_ms, room - own, ceil((room - own) / jsonb_array_length(turns)::numeric)::bigint);
                END IF;
                room := own;
            END IF;
            IF some_lanes IS NOT NULL AND room > 0 THEN
                claimed := claimed || /*schema.*/claim_lanes(worker, some_lanes, lease_ms, room);
            END IF;
        END LOOP;
    END IF;
    FOREACH one IN ARRAY limited LOOP
        PERFORM /*schema.*/close_share(worker, one);
    END LOOP;
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
-- part: retry_settings
-- What operators have set for the waits between attempts at jobs of a type: for the type, else for all.
CREATE OR REPLACE FUNCTION /*schema.*/retry_settings(type_name text) RETURNS jsonb
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $body$
    SELECT coalesce(jsonb_object_agg(
        substr(split_part(setting.name, ':', 1), 7), setting.value ORDER BY strpos(setting.name, ':') > 0
    ), '{}')
    FROM /*schema.*/setting AS setting
    WHERE setting.name LIKE 'retry\_%'
      AND substr(setting.name, strpos(setting.name || ':', ':') + 1) IN ('', type_name)
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
            'type', coalesce(left(error_type, 200), 'Error'), 'message', coalesce(right(nullif(message, ''), 2000), 'failed without a message'),
            'traceback', right(traceback, 20000))),
        'delay_ms', coalesce(delay_ms, /*schema.*/retry_delay(
            coalesce(kind.retry::jsonb, '{}') || /*schema.*/retry_settings(kind.name), attempt)),
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
        'id', id, 'lease_generation', lease_generation, 'is_started', true))::text) AS told;
    PERFORM /*schema.*/hint_work(ARRAY(
        SELECT job.queue FROM /*schema.*/job AS job WHERE job.id = id AND job.status = 'pending'));
END
$body$;

-- queues: what people do to queues, and the shares of workers that speak nothing but SQL.
-- part: checked_queue
-- The name of a queue; raises without one.
CREATE OR REPLACE FUNCTION /*schema.*/checked_queue(queue text) RETURNS text
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
BEGIN
    RETURN coalesce(/*schema.*/checked_name('queue', queue), /*schema.*/checked_name('queue', ''));
END
$body$;
-- part: pause_queue
-- Gives out nothing of a queue, until it is resumed or until a time.
CREATE OR REPLACE FUNCTION /*schema.*/pause_queue(queue text, resume_at timestamptz DEFAULT NULL, reason text DEFAULT NULL) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $body$
#variable_conflict use_variable
BEGIN
    queue := /*schema.*/checked_queue(queue);
    resume_at := /*schema.*/checked_instant('resume_at', resume_at::text);
    reason := left(reason, 2000);
    IF NOT EXISTS (SELECT FROM /*schema.*/verb_pause_queue(
        queue => queue, resume_at => resume_at, actor => session_user::text, reason => reason)) THEN
        PERFORM /*schema.*/refuse_option('resume_at', resume_at::text, 'give a time that has not passed, or none');
    END IF;
    -- Whoever sleeps until the end of a longer pause.
    PERFORM /*schema.*/hint_work(ARRAY[queue]);
    RETURN /*schema.*/audited('pause_queue', 'paused', NULL, NULL,
        jsonb_build_object('queue', queue, 'reason', reason, 'resume_at', resume_at));
END
$body$;
-- part: resume_queue
-- Gives out again what a pause has kept back; 'not_paused' if there was none.
CREATE OR REPLACE FUNCTION /*schema.*/resume_queue(queue text) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $body$
#variable_conflict use_variable
DECLARE
    outcome text := 'not_paused';
BEGIN
    queue := /*schema.*/checked_queue(queue);
    IF EXISTS (SELECT FROM /*schema.*/verb_resume_queue(queue => queue)) THEN
        outcome := 'resumed';
        PERFORM /*schema.*/hint_work(ARRAY[queue]);
    END IF;
    RETURN /*schema.*/audited('resume_queue', outcome, NULL, NULL, jsonb_build_object('queue', queue));
END
$body$;
-- part: checked_limits
-- The burst that goes with a rate: as many as in a second unless given. Raises for what can be no limits.
CREATE OR REPLACE FUNCTION /*schema.*/checked_limits(
    prefix text, concurrency integer, rate double precision, burst integer
) RETURNS integer
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
#variable_conflict use_variable
BEGIN
    IF concurrency NOT BETWEEN 1 AND 1000000 THEN
        PERFORM /*schema.*/refuse_option(prefix || 'concurrency', concurrency::text, 'give a number from 1 to 1000000, or none; to stop a queue, pause it');
    ELSIF rate NOT BETWEEN 0.000001 AND 1000000 THEN
        PERFORM /*schema.*/refuse_option(prefix || 'rate', rate::text, 'give starts per second, from 0.000001 to 1000000, or none');
    ELSIF burst NOT BETWEEN 1 AND 1000000 THEN
        PERFORM /*schema.*/refuse_option(prefix || 'burst', burst::text, 'give a number from 1 to 1000000, or none');
    ELSIF burst IS NOT NULL AND rate IS NULL THEN
        PERFORM /*schema.*/refuse_option(prefix || 'burst', burst::text, 'it goes with a rate');
    END IF;
    RETURN CASE WHEN rate IS NOT NULL THEN coalesce(burst, greatest(1, floor(rate))::integer) END;
END
$body$;
-- part: limit_queue
-- These limits and no others: jobs that run at a time, starts per second, starts at once; of the queue, of each concurrency key;
-- and by what jobs take turns.
CREATE OR REPLACE FUNCTION /*schema.*/limit_queue(
    queue text, concurrency integer DEFAULT NULL, rate double precision DEFAULT NULL, burst integer DEFAULT NULL,
    key_concurrency integer DEFAULT NULL, key_rate double precision DEFAULT NULL, key_burst integer DEFAULT NULL,
    fair_by text DEFAULT NULL
) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $body$
#variable_conflict use_variable
BEGIN
    queue := /*schema.*/checked_queue(queue);
    burst := /*schema.*/checked_limits('', concurrency, rate, burst);
    key_burst := /*schema.*/checked_limits('key_', key_concurrency, key_rate, key_burst);
    IF fair_by <> 'tenant' THEN
        PERFORM /*schema.*/refuse_option('fair_by', fair_by, 'give ''tenant'', or none');
    END IF;
    PERFORM /*schema.*/verb_limit_queue(
        queue => queue, concurrency => concurrency, rate => rate, burst => burst,
        key_concurrency => key_concurrency, key_rate => key_rate, key_burst => key_burst, fair_by => fair_by);
    PERFORM /*schema.*/verb_enter_shares(queue => queue);
    PERFORM /*schema.*/hint_work(ARRAY[queue]);
    RETURN /*schema.*/audited('limit_queue', 'limited', NULL, NULL,
        jsonb_build_object('queue', queue, 'concurrency', concurrency, 'rate', rate, 'burst', burst,
            'key_concurrency', key_concurrency, 'key_rate', key_rate, 'key_burst', key_burst, 'fair_by', fair_by));
END
$body$;
-- part: open_share
-- How many jobs of a limited queue a worker may claim now, up to `max_jobs`, with a share that allows it. No other share of
-- the queue is dealt out until the transaction ends. Of a queue with a rate none: nobody here saves up starts. At an isolation
-- level at which later statements see no later commits none either: the lock changes no row that such a transaction would
-- stumble over, and what others were dealt since its snapshot it would deal again.
CREATE OR REPLACE FUNCTION /*schema.*/open_share(worker text, queue text, max_jobs integer) RETURNS integer
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $body$
#variable_conflict use_variable
DECLARE
    limits record;
    runs integer;
    taken integer;
    permits integer;
BEGIN
    IF current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
        RETURN 0;
    END IF;
    SELECT * INTO limits FROM /*schema.*/verb_lock_queue(queue => queue);
    IF NOT FOUND THEN
        RETURN max_jobs;
    ELSIF limits.rate IS NOT NULL THEN
        RETURN 0;
    END IF;
    SELECT coalesce(sum(greatest(share.permits, share.in_use)) FILTER (WHERE share.worker_id <> worker), 0) INTO taken
    FROM /*schema.*/verb_collect_shares(queue => queue, worker => worker) AS share;
    SELECT count(*) INTO runs FROM /*schema.*/job AS job
    WHERE job.status = 'running' AND job.leased_by = worker AND job.queue = queue;
    permits := greatest(0, least(runs + max_jobs, limits.concurrency - taken));
    SELECT share.granted INTO permits FROM /*schema.*/verb_share_queue(
        queue => queue, worker => worker, permits => permits, in_use => runs, wanted => runs + max_jobs, rate => 0, burst => 0) AS share;
    RETURN greatest(0, permits - runs);
END
$body$;
-- part: close_share
-- After a claim: the worker keeps what it runs, and leaves the rest to others. Where none was opened for want of a fresh
-- snapshot, what the worker runs is not known either.
CREATE OR REPLACE FUNCTION /*schema.*/close_share(worker text, queue text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $body$
#variable_conflict use_variable
DECLARE
    runs integer;
BEGIN
    IF current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
        RETURN;
    END IF;
    SELECT count(*) INTO runs FROM /*schema.*/job AS job
    WHERE job.status = 'running' AND job.leased_by = worker AND job.queue = queue;
    PERFORM /*schema.*/verb_share_queue(
        queue => queue, worker => worker, permits => runs, in_use => runs, wanted => runs, rate => 0, burst => 0);
END
$body$;

-- fail_jobs: end attempts that failed: another one later, or a dead letter.
-- params: now timestamptz, worker text, jobs json
-- returns: id text, outcome text ('pending', 'dead_letter'; 'locked' = try again alone, 'lost' = not yours any more; and
--   of the dependants of dead letters 'woken' and 'unsettled', as in complete_jobs)
-- concurrency: fenced by (id, lease_generation, running), locked rows skipped, as in complete_jobs. Failing again under
--   the same generation reports what the first try did; a job that the reaper or a release took back is lost.
--   The fence is written as a CASE to keep the planner off the index of running jobs, which it would read as a whole.
-- locks: job rows by id, then their chains' dependants by id; never waited for.
-- Attempts allowed: the job's own, the operator's for the type, the operator's for all, the type's.
WITH sent AS MATERIALIZED (
    SELECT id, lease_generation, error, delay_ms, is_final, max_attempts, duration_ms
    FROM json_to_recordset(CAST(CAST(:jobs AS text) AS json)) AS failed (
        id /*id*/uuid, lease_generation bigint, error json, delay_ms bigint, is_final boolean, max_attempts integer,
        duration_ms bigint
    )
),
holding AS MATERIALIZED (
    SELECT job.ctid, sent.error, sent.delay_ms, sent.is_final, sent.duration_ms,
           coalesce(
               job.max_attempts,
               (SELECT value::text::integer FROM /*schema.*/setting AS setting WHERE name = 'max_attempts:' || job.type_name),
               (SELECT value::text::integer FROM /*schema.*/setting AS setting WHERE name = 'max_attempts'),
               sent.max_attempts
           ) AS attempts_allowed
    FROM sent JOIN /*schema.*/job AS job ON job.id = sent.id
    WHERE job.id = ANY (ARRAY(SELECT id FROM sent))
      AND CASE WHEN job.status = 'running' THEN job.lease_generation END = sent.lease_generation
    ORDER BY job.id
    FOR NO KEY UPDATE OF job SKIP LOCKED
),
ended AS (
    UPDATE /*schema.*/job AS job
    SET status = CASE WHEN is_final OR attempt >= attempts_allowed THEN 'dead_letter' ELSE 'pending' END,
        ready_at = CASE WHEN is_final OR attempt >= attempts_allowed THEN ready_at
                        ELSE moment + delay_ms * interval '1 millisecond' END,
        finished_at = CASE WHEN is_final OR attempt >= attempts_allowed THEN moment END,
        duration_ms = coalesce(holding.duration_ms, extract(epoch FROM moment - last_attempt_at) * 1000),
        last_attempt_error = holding.error,
        leased_by = NULL,
        leased_until = NULL
    FROM holding, (SELECT coalesce(CAST(:now AS timestamptz), statement_timestamp()) AS moment) AS clock
    WHERE job.ctid = holding.ctid
    RETURNING job.id, job.chain_id, job.status, job.lease_generation, job.attempt, job.last_attempt_at, job.last_attempt_error, moment
),
remembered AS (
    INSERT INTO /*schema.*/job_attempt
        (job_id, lease_generation, started_at, ended_at, attempt, worker_id, outcome, error)
    SELECT id, lease_generation, last_attempt_at, moment, attempt, CAST(:worker AS text), 'failed', last_attempt_error
    FROM ended
),
settled AS MATERIALIZED (
    SELECT unsettled, woken_queue
    FROM (SELECT array_agg(chain_id) AS dead, max(moment) AS moment FROM ended WHERE status = 'dead_letter') AS chains,
         /*schema.*/settle_dependants(dead, chains.moment, false)
    WHERE dead IS NOT NULL
)
SELECT id::text, status AS outcome FROM ended
UNION ALL
SELECT sent.id::text,
       CASE WHEN job.status = 'running' THEN 'locked'
            WHEN job.status IN ('pending', 'dead_letter') AND EXISTS (
                SELECT FROM /*schema.*/job_attempt AS job_attempt
                WHERE job_attempt.job_id = sent.id AND job_attempt.lease_generation = sent.lease_generation
                  AND job_attempt.outcome = 'failed'
            ) THEN job.status
            ELSE 'lost' END AS outcome
FROM sent LEFT JOIN /*schema.*/job AS job ON job.id = sent.id AND job.lease_generation = sent.lease_generation
WHERE NOT EXISTS (SELECT FROM ended WHERE ended.id = sent.id)
UNION ALL
SELECT coalesce(unsettled::text, woken_queue), CASE WHEN unsettled IS NULL THEN 'woken' ELSE 'unsettled' END FROM settled;

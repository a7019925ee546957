-- fail_jobs: end attempts that failed: another one later, or a dead letter, or cancelled.
-- params: now timestamptz, worker text, jobs json
-- returns: id text, outcome text ('pending', 'dead_letter', 'cancelled'; 'locked' = try again alone, 'completed' = it is,
--   under this generation, 'lost' = not yours any more; and of the dependants of what ended 'woken' and 'unsettled', as in
--   complete_jobs)
-- concurrency: fenced by (id, lease_generation, running), locked rows skipped, as in complete_jobs. Failing again under
--   the same generation reports what the first try did; a job that the reaper or a release took back is lost.
--   A job that somebody asked to cancel is cancelled, never pending, for
--   the reason given; the attempt keeps what the handler raised. Of older attempts the last 20 are kept.
--   The fence is written as a CASE to keep the planner off the index of running jobs, which it would read as a whole.
-- locks: job rows by id, then their chains' dependants by id; never waited for.
-- Attempts allowed: the job's own, the operator's for the type, the operator's for all, the type's.
WITH sent AS MATERIALIZED (
    SELECT id, lease_generation, error, delay_ms, retry_at, is_final, is_cancelled, max_attempts, duration_ms
    FROM json_to_recordset(CAST(CAST(:jobs AS text) AS json)) AS failed (
        id /*id*/uuid, lease_generation bigint, error json, delay_ms bigint, retry_at timestamptz, is_final boolean,
        is_cancelled boolean, max_attempts integer, duration_ms bigint
    )
),
holding AS MATERIALIZED (
    SELECT job.ctid, sent.error, sent.delay_ms, sent.retry_at, sent.duration_ms,
           CASE WHEN sent.is_cancelled OR job.cancel_requested_at IS NOT NULL THEN 'cancelled'
                WHEN sent.is_final OR job.attempt >= coalesce(
                    job.max_attempts,
                    (SELECT value::text::integer FROM /*schema.*/setting AS setting WHERE name = 'max_attempts:' || job.type_name),
                    (SELECT value::text::integer FROM /*schema.*/setting AS setting WHERE name = 'max_attempts'),
                    sent.max_attempts
                ) THEN 'dead_letter'
                ELSE 'pending' END AS verdict
    FROM sent JOIN /*schema.*/job AS job ON job.id = sent.id
    WHERE job.id = ANY (ARRAY(SELECT id FROM sent))
      AND CASE WHEN job.status = 'running' THEN job.lease_generation END = sent.lease_generation
    ORDER BY job.id
    FOR NO KEY UPDATE OF job SKIP LOCKED
),
ended AS (
    UPDATE /*schema.*/job AS job
    SET status = verdict,
        ready_at = CASE WHEN verdict <> 'pending' THEN ready_at
                        ELSE greatest(moment, coalesce(retry_at, moment + delay_ms * interval '1 millisecond')) END,
        finished_at = CASE WHEN verdict <> 'pending' THEN moment END,
        duration_ms = coalesce(holding.duration_ms, extract(epoch FROM moment - last_attempt_at) * 1000),
        last_attempt_error = coalesce(cancel_request -> 'error', holding.error),
        leased_by = NULL,
        leased_until = NULL
    FROM holding, (SELECT /*moment*/statement_timestamp() AS moment) AS clock
    WHERE job.ctid = holding.ctid
    RETURNING job.id, job.chain_id, job.status, job.lease_generation, job.attempt, job.last_attempt_at, holding.error, moment
),
remembered AS (
    INSERT INTO /*schema.*/job_attempt
        (job_id, lease_generation, started_at, ended_at, attempt, worker_id, outcome, error)
    SELECT id, lease_generation, last_attempt_at, moment, attempt, CAST(:worker AS text),
           CASE WHEN status = 'cancelled' THEN 'cancelled' ELSE 'failed' END, error
    FROM ended
),
forgotten AS (
    DELETE FROM /*schema.*/job_attempt AS job_attempt
    USING (
        SELECT ended.id, (
            SELECT old.lease_generation FROM /*schema.*/job_attempt AS old WHERE old.job_id = ended.id
            ORDER BY old.lease_generation DESC OFFSET 19 LIMIT 1
        ) AS last
        FROM ended WHERE ended.lease_generation > 20
        OFFSET 0
    ) AS full_history
    WHERE job_attempt.job_id = full_history.id AND job_attempt.lease_generation <= full_history.last
),
settled AS MATERIALIZED (
    SELECT unsettled, woken_queue
    FROM (SELECT array_agg(chain_id) AS over, max(moment) AS moment FROM ended WHERE status <> 'pending') AS chains,
         /*schema.*/settle_dependants(over, chains.moment, false)
    WHERE over IS NOT NULL
)
SELECT id::text, status AS outcome FROM ended
UNION ALL
SELECT sent.id::text,
       CASE WHEN job.status = 'running' THEN 'locked'
            WHEN job.status = 'completed' THEN 'completed'
            WHEN job.status IN ('pending', 'dead_letter', 'cancelled') AND EXISTS (
                SELECT FROM /*schema.*/job_attempt AS job_attempt
                WHERE job_attempt.job_id = sent.id AND job_attempt.lease_generation = sent.lease_generation
                  AND job_attempt.outcome IN ('failed', 'cancelled')
            ) THEN job.status
            ELSE 'lost' END AS outcome
FROM sent LEFT JOIN /*schema.*/job AS job ON job.id = sent.id AND job.lease_generation = sent.lease_generation
WHERE NOT EXISTS (SELECT FROM ended WHERE ended.id = sent.id)
UNION ALL
SELECT coalesce(unsettled::text, woken_queue), CASE WHEN unsettled IS NULL THEN 'woken' ELSE 'unsettled' END FROM settled;

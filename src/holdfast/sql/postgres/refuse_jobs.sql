-- refuse_jobs: put back jobs that this worker cannot run, for one that can; a dead letter after too long.
-- params: now timestamptz, patience_ms bigint, jobs json
-- returns: id text, outcome text ('pending', 'dead_letter', 'cancelled'; 'locked' = try again alone, 'lost' = not yours any
--   more; and of the dependants of what ended 'woken' and 'unsettled', as in complete_jobs)
-- concurrency: fenced by (id, lease_generation, running), locked rows skipped. The attempt is refunded, the generation is
--   not. The error keeps the time of the first refusal in a row; the delay is the time since then, so it doubles, or the one
--   that was asked for, but never more than five minutes.
--   Refusing again under the same generation reports what the first try did.
--   The fence is written as a CASE to keep the planner off the index of running jobs, which it would read as a whole.
-- locks: job rows by id, then the dependants of ended ones by id; never waited for.
WITH sent AS MATERIALIZED (
    SELECT id, lease_generation, error, delay_ms
    FROM json_to_recordset(CAST(CAST(:jobs AS text) AS json)) AS refused (
        id /*id*/uuid, lease_generation bigint, error json, delay_ms bigint
    )
),
holding AS MATERIALIZED (
    SELECT job.ctid, sent.error, sent.delay_ms, moment, since,
           CASE WHEN job.cancel_requested_at IS NOT NULL THEN 'cancelled'
                WHEN moment - since >= CAST(:patience_ms AS bigint) * interval '1 millisecond' THEN 'dead_letter'
                ELSE 'pending' END AS verdict
    FROM sent JOIN /*schema.*/job AS job ON job.id = sent.id,
         LATERAL (SELECT /*moment*/statement_timestamp() AS moment) AS clock,
         LATERAL (SELECT coalesce(CAST(job.last_attempt_error ->> 'first_refused_at' AS timestamptz), moment) AS since) AS first
    WHERE job.id = ANY (ARRAY(SELECT id FROM sent))
      AND CASE WHEN job.status = 'running' THEN job.lease_generation END = sent.lease_generation
    ORDER BY job.id
    FOR NO KEY UPDATE OF job SKIP LOCKED
),
refused AS (
    UPDATE /*schema.*/job AS job
    SET status = verdict,
        attempt = attempt - 1,
        ready_at = CASE WHEN verdict = 'pending'
                        THEN moment + least(greatest(moment - since, interval '1 second', delay_ms * interval '1 millisecond'),
                                            interval '5 minutes')
                        ELSE ready_at END,
        finished_at = CASE WHEN verdict <> 'pending' THEN moment END,
        last_attempt_error = json_build_object(
            'type', coalesce(cancel_request -> 'error', holding.error) ->> 'type',
            'message', coalesce(cancel_request -> 'error', holding.error) ->> 'message', 'first_refused_at', since),
        leased_by = NULL,
        leased_until = NULL
    FROM holding
    WHERE job.ctid = holding.ctid
    RETURNING job.id, job.chain_id, job.status, moment
),
settled AS MATERIALIZED (
    SELECT unsettled, woken_queue
    FROM (SELECT array_agg(chain_id) AS ended, max(moment) AS moment FROM refused WHERE status <> 'pending') AS chains,
         /*schema.*/settle_dependants(ended, chains.moment, false)
    WHERE ended IS NOT NULL
)
SELECT id::text, status AS outcome FROM refused
UNION ALL
SELECT sent.id::text,
       CASE WHEN job.status = 'running' THEN 'locked'
            WHEN job.status IN ('pending', 'dead_letter') AND job.last_attempt_error ->> 'first_refused_at' IS NOT NULL
                THEN job.status
            ELSE 'lost' END
FROM sent LEFT JOIN /*schema.*/job AS job ON job.id = sent.id AND job.lease_generation = sent.lease_generation
WHERE sent.id NOT IN (SELECT id FROM refused)
UNION ALL
SELECT coalesce(unsettled::text, woken_queue), CASE WHEN unsettled IS NULL THEN 'woken' ELSE 'unsettled' END FROM settled;

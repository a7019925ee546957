-- snooze_jobs: put running jobs off: pending again, for later.
-- params: now timestamptz, jobs json
-- returns: id text, outcome text (only what was not put off: 'locked' = try again alone, 'lost' = not yours any more,
--   'cancelled' = it was to be, so it is; and of the dependants of these 'woken' and 'unsettled', as in complete_jobs)
-- concurrency: fenced by (id, lease_generation, running), locked rows skipped. The attempt is refunded, the generation is
--   not: it only grows. A job that somebody asked to cancel is cancelled, never pending. Putting off again under the same
--   generation changes nothing. A job that was started no longer expires, and what was refused before that is past.
--   The fence is written as a CASE to keep the planner off the index of running jobs, which it would read as a whole.
-- locks: job rows by id, then the dependants of cancelled ones by id; never waited for.
WITH sent AS MATERIALIZED (
    SELECT id, lease_generation, delay_ms, until
    FROM json_to_recordset(CAST(CAST(:jobs AS text) AS json)) AS snoozed (
        id /*id*/uuid, lease_generation bigint, delay_ms bigint, until timestamptz
    )
),
holding AS MATERIALIZED (
    SELECT job.ctid, job.cancel_requested_at IS NOT NULL AS is_cancelled, sent.delay_ms, sent.until
    FROM sent JOIN /*schema.*/job AS job ON job.id = sent.id
    WHERE job.id = ANY (ARRAY(SELECT id FROM sent))
      AND CASE WHEN job.status = 'running' THEN job.lease_generation END = sent.lease_generation
    ORDER BY job.id
    FOR NO KEY UPDATE OF job SKIP LOCKED
),
snoozed AS (
    UPDATE /*schema.*/job AS job
    SET status = CASE WHEN is_cancelled THEN 'cancelled' ELSE 'pending' END,
        attempt = attempt - 1,
        ready_at = CASE WHEN is_cancelled THEN ready_at
                        ELSE greatest(moment, coalesce(until, moment + delay_ms * interval '1 millisecond')) END,
        finished_at = CASE WHEN is_cancelled THEN moment END,
        last_attempt_error = CASE WHEN is_cancelled
            THEN coalesce(cancel_request -> 'error', json_build_object('type', 'Cancelled', 'message', 'cancelled while it ran'))
            WHEN last_attempt_error -> 'first_refused_at' IS NOT NULL
            THEN json_build_object('type', last_attempt_error -> 'type', 'message', last_attempt_error -> 'message')
            ELSE last_attempt_error END,
        expires_at = NULL,
        leased_by = NULL,
        leased_until = NULL
    FROM holding, (SELECT /*moment*/statement_timestamp() AS moment) AS clock
    WHERE job.ctid = holding.ctid
    RETURNING job.id, job.chain_id, is_cancelled, moment
),
settled AS MATERIALIZED (
    SELECT unsettled, woken_queue
    FROM (SELECT array_agg(chain_id) AS ended, max(moment) AS moment FROM snoozed WHERE is_cancelled) AS chains,
         /*schema.*/settle_dependants(ended, chains.moment, false)
    WHERE ended IS NOT NULL
)
SELECT sent.id::text, CASE WHEN job.status = 'running' THEN 'locked' ELSE 'lost' END AS outcome
FROM sent LEFT JOIN /*schema.*/job AS job ON job.id = sent.id AND job.lease_generation = sent.lease_generation
WHERE sent.id NOT IN (SELECT id FROM snoozed)
  AND job.status IS DISTINCT FROM 'pending'
UNION ALL
SELECT id::text, 'cancelled' FROM snoozed WHERE is_cancelled
UNION ALL
SELECT coalesce(unsettled::text, woken_queue), CASE WHEN unsettled IS NULL THEN 'woken' ELSE 'unsettled' END FROM settled;

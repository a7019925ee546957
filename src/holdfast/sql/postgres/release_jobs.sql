-- release_jobs: give claimed jobs back untouched, each to its old place.
-- params: now timestamptz, jobs json
-- returns: id text, outcome text (only what was not released: 'locked' = try again alone, 'lost' = not yours any more,
--   'cancelled' = it was to be, so it is; and of the dependants of these 'woken' and 'unsettled', as in complete_jobs)
-- concurrency: fenced by (id, lease_generation, running), locked rows skipped. The attempt is refunded, the
--   generation is not: it only grows. A job that somebody asked to cancel is cancelled, never pending.
--   One that was started no longer expires, and what was refused before that is past.
--   The fence is written as a CASE to keep the planner off the index of running jobs, which it would read as a whole.
-- locks: job rows by id, then the dependants of cancelled ones by id; never waited for.
WITH sent AS MATERIALIZED (
    SELECT id, lease_generation, is_started
    FROM json_to_recordset(CAST(CAST(:jobs AS text) AS json))
         AS lease (id /*id*/uuid, lease_generation bigint, is_started boolean)
),
holding AS MATERIALIZED (
    SELECT job.ctid, job.id, sent.is_started
    FROM sent JOIN /*schema.*/job AS job ON job.id = sent.id
    WHERE job.id = ANY (ARRAY(SELECT id FROM sent))
      AND CASE WHEN job.status = 'running' THEN job.lease_generation END = sent.lease_generation
    ORDER BY job.id
    FOR NO KEY UPDATE OF job SKIP LOCKED
),
released AS (
    UPDATE /*schema.*/job AS job
    SET status = CASE WHEN cancel_requested_at IS NULL THEN 'pending' ELSE 'cancelled' END,
        attempt = attempt - 1,
        finished_at = CASE WHEN cancel_requested_at IS NOT NULL
                           THEN /*moment*/statement_timestamp() END,
        last_attempt_error = CASE
            WHEN cancel_requested_at IS NULL AND last_attempt_error -> 'first_refused_at' IS NOT NULL
                 AND id IN (SELECT id FROM holding WHERE is_started)
            THEN json_build_object('type', last_attempt_error -> 'type', 'message', last_attempt_error -> 'message')
            WHEN cancel_requested_at IS NULL THEN last_attempt_error
            ELSE coalesce(cancel_request -> 'error', json_build_object('type', 'Cancelled', 'message', 'cancelled while it ran')) END,
        expires_at = CASE WHEN id IN (SELECT id FROM holding WHERE is_started) THEN NULL ELSE expires_at END,
        leased_by = NULL,
        leased_until = NULL
    WHERE ctid = ANY (ARRAY(SELECT ctid FROM holding))
    RETURNING id, chain_id, status
),
settled AS MATERIALIZED (
    SELECT unsettled, woken_queue
    FROM (SELECT array_agg(chain_id) AS ended FROM released WHERE status = 'cancelled') AS chains,
         /*schema.*/settle_dependants(ended, /*moment*/statement_timestamp(), false)
    WHERE ended IS NOT NULL
)
SELECT sent.id::text, CASE WHEN job.status = 'running' THEN 'locked' ELSE 'lost' END AS outcome
FROM sent LEFT JOIN /*schema.*/job AS job ON job.id = sent.id AND job.lease_generation = sent.lease_generation
WHERE sent.id NOT IN (SELECT id FROM released)
  AND job.status IS DISTINCT FROM 'pending'
UNION ALL
SELECT id::text, 'cancelled' FROM released WHERE status = 'cancelled'
UNION ALL
SELECT coalesce(unsettled::text, woken_queue), CASE WHEN unsettled IS NULL THEN 'woken' ELSE 'unsettled' END FROM settled;

-- expire_jobs: cancel up to /*limit*/500 jobs that nobody started by the time they were given.
-- params: now timestamptz
-- returns: id text, outcome text, chain_id text, type_name text, queue text, tenant text, lease_generation bigint, error text
--   (outcome is 'expired'; and, with no more than these two, of the dependants 'woken' and 'unsettled', as in complete_jobs,
--   and 'woken' of the queues in which the next job of a partition key may be claimed by this)
-- concurrency: claims leave these jobs alone, so nobody starts one that is being cancelled; locked rows are left for the
--   next round.
-- locks: job rows in order of expiry, then their chains' dependants by id; never waited for.
WITH overdue AS MATERIALIZED (
    SELECT job.ctid
    FROM /*schema.*/job AS job
    WHERE job.expires_at IS NOT NULL AND job.attempt = 0 AND job.status IN ('pending', 'blocked')
      AND job.expires_at <= /*moment*/statement_timestamp()
    ORDER BY job.expires_at
    LIMIT /*limit*/500
    FOR NO KEY UPDATE SKIP LOCKED
),
expired AS (
    UPDATE /*schema.*/job AS job
    SET status = 'cancelled',
        finished_at = /*moment*/statement_timestamp(),
        last_attempt_error = json_build_object('type', 'Expired', 'message', 'not started by ' || (expires_at AT TIME ZONE 'UTC') || ' UTC')
    WHERE ctid = ANY (ARRAY(SELECT ctid FROM overdue))
    RETURNING id, chain_id, type_name, queue, tenant, lease_generation, last_attempt_error,
              partition_key IS NOT NULL AND (NOT held OR limited) AS has_left
),
settled AS MATERIALIZED (
    SELECT unsettled, woken_queue
    FROM (SELECT array_agg(chain_id) AS ended FROM expired) AS chains,
         /*schema.*/settle_dependants(ended, /*moment*/statement_timestamp(), false)
    WHERE ended IS NOT NULL
)
SELECT id::text, 'expired' AS outcome, chain_id::text, type_name, queue, tenant, lease_generation,
       last_attempt_error::text AS error
FROM expired
UNION ALL
SELECT queue, 'woken', NULL, NULL, NULL, NULL, NULL, NULL FROM (SELECT DISTINCT queue FROM expired WHERE has_left) AS freed
UNION ALL
SELECT coalesce(unsettled::text, woken_queue), CASE WHEN unsettled IS NULL THEN 'woken' ELSE 'unsettled' END,
       NULL, NULL, NULL, NULL, NULL, NULL
FROM settled;

-- reap_jobs: take jobs from holders that are gone: back to pending, to the dead letters, or cancelled.
-- params: now timestamptz, dead_after_ms bigint, jobs json
-- returns: id text, outcome text ('pending', 'dead_letter', 'cancelled'; and of the dependants of what ended 'woken' and
--   'unsettled', as in complete_jobs)
-- concurrency: fenced by (id, lease_generation, running), and the reason is checked again under the row's lock: a lease
--   renewed, or a heartbeat seen, since find_reapable keeps its job. Locked rows are left for the next round.
--   A job that somebody asked to cancel is cancelled, never pending. Of older attempts the last 20 are kept.
--   The fence is written as a CASE to keep the planner off the index of running jobs, which it would read as a whole.
-- locks: job rows by id, then their chains' dependants by id; never waited for.
WITH sent AS MATERIALIZED (
    SELECT id, lease_generation, error, delay_ms, is_dead, is_crash, is_refund
    FROM json_to_recordset(CAST(CAST(:jobs AS text) AS json)) AS found (
        id /*id*/uuid, lease_generation bigint, error json, delay_ms bigint, is_dead boolean, is_crash boolean,
        is_refund boolean
    )
),
holding AS MATERIALIZED (
    SELECT job.ctid, job.leased_by AS owner_id, sent.error, sent.delay_ms, sent.is_crash, sent.is_refund,
           CASE WHEN job.cancel_requested_at IS NOT NULL THEN 'cancelled'
                WHEN sent.is_dead THEN 'dead_letter' ELSE 'pending' END AS verdict
    FROM sent JOIN /*schema.*/job AS job ON job.id = sent.id
    WHERE job.id = ANY (ARRAY(SELECT id FROM sent))
      AND CASE WHEN job.status = 'running' THEN job.lease_generation END = sent.lease_generation
      AND (job.leased_until < /*moment*/statement_timestamp()
           OR NOT EXISTS (
               SELECT FROM /*schema.*/worker AS owner
               WHERE owner.id = job.leased_by AND owner.status <> 'dead'
                 AND owner.last_seen_at >= /*moment*/statement_timestamp()
                                           - CAST(:dead_after_ms AS bigint) * interval '1 millisecond'
           ))
    ORDER BY job.id
    FOR NO KEY UPDATE OF job SKIP LOCKED
),
reaped AS (
    UPDATE /*schema.*/job AS job
    SET status = verdict,
        attempt = CASE WHEN is_refund THEN attempt - 1 ELSE attempt END,
        crash_count = CASE WHEN is_crash THEN crash_count + 1 ELSE crash_count END,
        ready_at = CASE WHEN verdict <> 'pending' OR (is_refund AND NOT is_crash) THEN ready_at
                        ELSE moment + delay_ms * interval '1 millisecond' END,
        finished_at = CASE WHEN verdict <> 'pending' THEN moment END,
        last_attempt_error = CASE WHEN verdict = 'cancelled' AND cancel_request IS NOT NULL THEN cancel_request -> 'error'
                                  WHEN is_refund AND NOT is_crash THEN last_attempt_error ELSE holding.error END,
        expires_at = CASE WHEN is_crash THEN NULL ELSE expires_at END,
        leased_by = NULL,
        leased_until = NULL
    FROM holding, (SELECT /*moment*/statement_timestamp() AS moment) AS clock
    WHERE job.ctid = holding.ctid
    RETURNING job.id, job.chain_id, job.status, job.lease_generation, job.attempt, job.last_attempt_at, holding.owner_id,
              holding.error, holding.is_crash, holding.is_refund, moment
),
remembered AS (
    INSERT INTO /*schema.*/job_attempt
        (job_id, lease_generation, started_at, ended_at, attempt, worker_id, outcome, error)
    SELECT id, lease_generation, last_attempt_at, moment, attempt + is_refund::integer, owner_id,
           CASE WHEN is_crash THEN 'crashed' ELSE 'expired' END, error
    FROM reaped WHERE NOT is_refund OR is_crash
),
forgotten AS (
    DELETE FROM /*schema.*/job_attempt AS job_attempt
    USING (
        SELECT reaped.id, (
            SELECT old.lease_generation FROM /*schema.*/job_attempt AS old WHERE old.job_id = reaped.id
            ORDER BY old.lease_generation DESC OFFSET 19 LIMIT 1
        ) AS last
        FROM reaped WHERE reaped.lease_generation > 20
        OFFSET 0
    ) AS full_history
    WHERE job_attempt.job_id = full_history.id AND job_attempt.lease_generation <= full_history.last
),
settled AS MATERIALIZED (
    SELECT unsettled, woken_queue
    FROM (SELECT array_agg(chain_id) AS over, max(moment) AS moment FROM reaped WHERE status <> 'pending') AS chains,
         /*schema.*/settle_dependants(over, chains.moment, false)
    WHERE over IS NOT NULL
)
SELECT id::text, status AS outcome FROM reaped
UNION ALL
SELECT coalesce(unsettled::text, woken_queue), CASE WHEN unsettled IS NULL THEN 'woken' ELSE 'unsettled' END FROM settled;

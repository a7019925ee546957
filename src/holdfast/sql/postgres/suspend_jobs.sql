-- suspend_jobs: put running jobs to sleep, or let them wait for a signal or for their children, without a slot.
-- params: now timestamptz, jobs json
-- returns: id text, outcome text (only what was not done: 'locked' = try again alone, 'lost' = not yours any more,
--   'cancelled' = it was to be, so it is; and of the dependants of these 'woken' and 'unsettled', as in complete_jobs)
-- concurrency: fenced by (id, lease_generation, running), locked rows skipped. The attempt is refunded, the generation is
--   not. What has a time is pending until then, all else is blocked; of children only while some of them, counted in
--   waiting_for, have not ended. When a wait ends is decided when it is first written down. A signal that came meanwhile is
--   looked for by the next statement of the transaction (wake_signalled), under the lock that its sender waits for. A job
--   that somebody asked to cancel is cancelled. Again under the same generation changes nothing. A time that was set for a
--   wait which ended early does not hold for the next one.
--   The fence is written as a CASE to keep the planner off the index of running jobs, which it would read as a whole.
-- locks: job rows by id, then the dependants of cancelled ones by id; never waited for.
WITH sent AS MATERIALIZED (
    SELECT id, lease_generation, kind, name, signal, delay_ms, until
    FROM json_to_recordset(CAST(CAST(:jobs AS text) AS json)) AS waiting (
        id /*id*/uuid, lease_generation bigint, kind text, name text, signal text, delay_ms bigint, until timestamptz
    )
),
holding AS MATERIALIZED (
    SELECT job.ctid AS place, job.cancel_requested_at IS NOT NULL AS is_cancelled, sent.*
    FROM sent JOIN /*schema.*/job AS job ON job.id = sent.id
    WHERE job.id = ANY (ARRAY(SELECT id FROM sent))
      AND CASE WHEN job.status = 'running' THEN job.lease_generation END = sent.lease_generation
    ORDER BY job.id
    FOR NO KEY UPDATE OF job SKIP LOCKED
),
planned AS MATERIALIZED (
    SELECT holding.*, moment,
           coalesce(known.ends_at, holding.until, moment + holding.delay_ms * interval '1 millisecond') AS ends_at
    FROM holding
    CROSS JOIN (SELECT /*moment*/statement_timestamp() AS moment) AS clock
    LEFT JOIN LATERAL (
        SELECT job_step.ends_at FROM /*schema.*/job_step AS job_step
        WHERE job_step.job_id = holding.id AND job_step.name = holding.name
    ) AS known ON true
),
noted AS (
    INSERT INTO /*schema.*/job_step AS job_step (job_id, name, kind, signal, ends_at, lease_generation, saved_at)
    SELECT id, name, kind, signal, ends_at, lease_generation, moment FROM planned
    WHERE kind <> 'children' AND NOT is_cancelled
    ON CONFLICT (job_id, name) DO UPDATE
    SET lease_generation = excluded.lease_generation, signal = excluded.signal, ends_at = excluded.ends_at
),
let_go AS (
    UPDATE /*schema.*/job_blocker AS job_blocker SET is_resolved = true
    WHERE job_id = ANY (ARRAY(SELECT id FROM planned WHERE kind <> 'children')) AND NOT is_resolved
),
suspended AS (
    UPDATE /*schema.*/job AS job
    SET status = CASE WHEN is_cancelled THEN 'cancelled'
                      WHEN kind = 'signal' AND ends_at IS NULL OR kind = 'children' AND waiting_for > 0 THEN 'blocked'
                      ELSE 'pending' END,
        waiting_for = CASE WHEN kind = 'children' THEN waiting_for
                           WHEN kind = 'signal' AND ends_at IS NULL AND NOT is_cancelled THEN 1
                           ELSE 0 END,
        held = held AND NOT (kind = 'signal' AND ends_at IS NULL OR kind = 'children' AND waiting_for > 0),
        attempt = attempt - 1,
        scheduled_at = least(scheduled_at, moment),
        ready_at = CASE WHEN is_cancelled THEN ready_at ELSE greatest(moment, ends_at) END,
        step = coalesce(name, step),
        finished_at = CASE WHEN is_cancelled THEN moment END,
        last_attempt_error = CASE WHEN is_cancelled
            THEN coalesce(cancel_request -> 'error', json_build_object('type', 'Cancelled', 'message', 'cancelled while it ran'))
            WHEN last_attempt_error -> 'first_refused_at' IS NOT NULL
            THEN json_build_object('type', last_attempt_error -> 'type', 'message', last_attempt_error -> 'message')
            ELSE last_attempt_error END,
        expires_at = NULL,
        leased_by = NULL,
        leased_until = NULL
    FROM planned
    WHERE job.ctid = planned.place
    RETURNING job.id, job.chain_id, is_cancelled, moment
),
settled AS MATERIALIZED (
    SELECT unsettled, woken_queue
    FROM (SELECT array_agg(chain_id) AS ended, max(moment) AS moment FROM suspended WHERE is_cancelled) AS chains,
         /*schema.*/settle_dependants(ended, chains.moment, false)
    WHERE ended IS NOT NULL
)
SELECT sent.id::text, CASE WHEN job.status = 'running' THEN 'locked' ELSE 'lost' END AS outcome
FROM sent LEFT JOIN /*schema.*/job AS job ON job.id = sent.id AND job.lease_generation = sent.lease_generation
WHERE sent.id NOT IN (SELECT id FROM suspended)
  AND (job.status IS NULL OR job.status NOT IN ('pending', 'blocked'))
UNION ALL
SELECT id::text, 'cancelled' FROM suspended WHERE is_cancelled
UNION ALL
SELECT coalesce(unsettled::text, woken_queue), CASE WHEN unsettled IS NULL THEN 'woken' ELSE 'unsettled' END FROM settled;

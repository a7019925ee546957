-- release_orphans: give back jobs that this worker holds without knowing it (the answer to a claim was lost).
-- params: now timestamptz, worker text, known json, started boolean
-- returns: id text, outcome text ('pending', 'cancelled'; 'woken' = a queue that a job went back to; and of the dependants of
--   what was cancelled 'woken' and 'unsettled', as in complete_jobs)
-- concurrency: called by the worker itself while it has no claim under way, so what it does not know it never started;
--   with started, by others or in the end: they may have been, and no longer expire; what was refused before is past.
--   A job that somebody asked to cancel is cancelled, never pending.
-- locks: job rows by id, then the dependants of cancelled ones by id; never waited for.
WITH orphan AS MATERIALIZED (
    SELECT job.ctid
    FROM /*schema.*/job AS job
    WHERE job.status = 'running' AND job.leased_by = CAST(:worker AS text)
      AND job.id::text NOT IN (SELECT json_array_elements_text(CAST(CAST(:known AS text) AS json)))
    ORDER BY job.id
    FOR NO KEY UPDATE SKIP LOCKED
),
released AS (
    UPDATE /*schema.*/job AS job
    SET status = CASE WHEN cancel_requested_at IS NULL THEN 'pending' ELSE 'cancelled' END,
        attempt = attempt - 1,
        finished_at = CASE WHEN cancel_requested_at IS NOT NULL
                           THEN /*moment*/statement_timestamp() END,
        last_attempt_error = CASE
            WHEN cancel_requested_at IS NULL AND last_attempt_error -> 'first_refused_at' IS NOT NULL
                 AND CAST(:started AS boolean)
            THEN json_build_object('type', last_attempt_error -> 'type', 'message', last_attempt_error -> 'message')
            WHEN cancel_requested_at IS NULL THEN last_attempt_error
            ELSE coalesce(cancel_request -> 'error', json_build_object('type', 'Cancelled', 'message', 'cancelled before it was started')) END,
        expires_at = CASE WHEN CAST(:started AS boolean) THEN NULL ELSE expires_at END,
        leased_by = NULL,
        leased_until = NULL
    WHERE ctid = ANY (ARRAY(SELECT ctid FROM orphan))
    RETURNING id, chain_id, status, queue
),
settled AS MATERIALIZED (
    SELECT unsettled, woken_queue
    FROM (SELECT array_agg(chain_id) AS ended FROM released WHERE status = 'cancelled') AS chains,
         /*schema.*/settle_dependants(ended, /*moment*/statement_timestamp(), false)
    WHERE ended IS NOT NULL
)
SELECT id::text, status AS outcome FROM released
UNION ALL
SELECT DISTINCT queue, 'woken' FROM released
UNION ALL
SELECT coalesce(unsettled::text, woken_queue), CASE WHEN unsettled IS NULL THEN 'woken' ELSE 'unsettled' END FROM settled;

-- cancel_jobs: end jobs that wait; ask those that run to end.
-- params: now timestamptz, jobs json, error json, chain boolean
-- returns: queue text (those in which the next job of a partition key may be claimed by this)
-- concurrency: the rows are locked before (lock_jobs), so their status stands; only what is not finished is changed. A
--   running job stays its holder's, who finds the request when he renews his lease; the first request's time and reason stay,
--   and are found by whatever ends the job otherwise than completed. With chain, a next job is not to run either.
--   The states are in a CASE to keep the planner off the indexes of certain states, which it would read as a whole.
-- locks: job rows that are locked already.
WITH changed AS (
    UPDATE /*schema.*/job AS job
    SET status = CASE WHEN status = 'running' THEN status ELSE 'cancelled' END,
        finished_at = CASE WHEN status = 'running' THEN NULL ELSE moment END,
        cancel_requested_at = CASE WHEN status = 'running' THEN coalesce(cancel_requested_at, moment)
                                   ELSE cancel_requested_at END,
        cancel_request = CASE WHEN status = 'running' THEN json_build_object(
            'error', coalesce(cancel_request -> 'error', CAST(CAST(:error AS text) AS json)),
            'is_chain', coalesce(CAST(cancel_request ->> 'is_chain' AS boolean), false) OR CAST(:chain AS boolean)) END,
        last_attempt_error = CASE WHEN status = 'running' THEN last_attempt_error
                                  ELSE CAST(CAST(:error AS text) AS json) END
    FROM (SELECT /*moment*/statement_timestamp() AS moment) AS clock
    WHERE id = ANY (ARRAY(
        SELECT CAST(id AS /*id*/uuid) FROM json_array_elements_text(CAST(CAST(:jobs AS text) AS json)) AS sent (id)
    )) AND CASE WHEN status IN ('blocked', 'pending', 'running') THEN true END
    RETURNING job.queue, job.status, job.partition_key, job.held AND NOT job.limited AS has_others_in_front
)
SELECT DISTINCT changed.queue FROM changed
WHERE changed.status = 'cancelled' AND changed.partition_key IS NOT NULL AND NOT changed.has_others_in_front;

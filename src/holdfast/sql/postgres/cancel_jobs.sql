-- cancel_jobs: end jobs that wait; ask those that run to end.
-- params: now timestamptz, jobs json, error json
-- returns: none
-- concurrency: the rows are locked before (lock_jobs), so their status stands; only what is not finished is changed. A
--   running job stays its holder's, who finds the request when he renews his lease; the first request's time stays.
--   The states are in a CASE to keep the planner off the indexes of certain states, which it would read as a whole.
-- locks: job rows that are locked already.
UPDATE /*schema.*/job AS job
SET status = CASE WHEN status = 'running' THEN status ELSE 'cancelled' END,
    finished_at = CASE WHEN status = 'running' THEN NULL ELSE moment END,
    cancel_requested_at = CASE WHEN status = 'running' THEN coalesce(cancel_requested_at, moment)
                               ELSE cancel_requested_at END,
    last_attempt_error = CASE WHEN status = 'running' THEN last_attempt_error
                              ELSE CAST(CAST(:error AS text) AS json) END
FROM (SELECT coalesce(CAST(:now AS timestamptz), statement_timestamp()) AS moment) AS clock
WHERE id = ANY (ARRAY(
    SELECT CAST(id AS /*id*/uuid) FROM json_array_elements_text(CAST(CAST(:jobs AS text) AS json)) AS sent (id)
)) AND CASE WHEN status IN ('blocked', 'pending', 'running') THEN true END;

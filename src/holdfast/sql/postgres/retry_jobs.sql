-- retry_jobs: let dead letters and cancelled jobs begin anew.
-- params: now timestamptz, jobs json
-- returns: none
-- concurrency: the rows are locked before (lock_jobs), so their status stands. What still waits for chains is blocked
--   again, all else is claimable, behind who waits already. The generation stays: whoever held the job before is fenced off.
--   The last error stays to be seen until the next attempt ends; a time of expiry that has passed would only cancel the
--   job again.
--   The states are in a CASE to keep the planner off the indexes of certain states, which it would read as a whole.
-- locks: job rows that are locked already.
UPDATE /*schema.*/job AS job
SET status = CASE WHEN waiting_for > 0 THEN 'blocked' ELSE 'pending' END,
    ready_at = moment,
    held = false,
    attempt = 0,
    crash_count = 0,
    finished_at = NULL,
    cancel_requested_at = NULL,
    expires_at = CASE WHEN expires_at > moment THEN expires_at END
FROM (SELECT coalesce(CAST(:now AS timestamptz), statement_timestamp()) AS moment) AS clock
WHERE id = ANY (ARRAY(
    SELECT CAST(id AS /*id*/uuid) FROM json_array_elements_text(CAST(CAST(:jobs AS text) AS json)) AS sent (id)
)) AND CASE WHEN status IN ('dead_letter', 'cancelled') THEN true END;

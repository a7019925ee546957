-- retry_jobs: let dead letters and cancelled jobs begin anew.
-- params: now timestamptz, jobs json
-- returns: none
-- concurrency: the rows are locked before (lock_jobs), so their status stands. What still waits for chains is blocked
--   again, all else is claimable, behind who waits already, but not before the
--   time it was scheduled for. The generation stays: whoever held the job before is fenced off.
--   The last error stays to be seen until the next attempt ends, but refusals count anew; a time of expiry that has passed would only cancel the
--   job again, and one that was started no longer expires.
--   The states are in a CASE to keep the planner off the indexes of certain states, which it would read as a whole.
-- locks: job rows that are locked already.
UPDATE /*schema.*/job AS job
SET status = CASE WHEN waiting_for > 0 THEN 'blocked' ELSE 'pending' END,
    ready_at = greatest(moment, scheduled_at),
    held = false,
    limited = false,
    attempt = 0,
    crash_count = 0,
    finished_at = NULL,
    cancel_requested_at = NULL,
    cancel_request = NULL,
    last_attempt_error = CASE WHEN last_attempt_error -> 'first_refused_at' IS NULL THEN last_attempt_error ELSE
        json_build_object('type', last_attempt_error -> 'type', 'message', last_attempt_error -> 'message') END,
    expires_at = CASE WHEN attempt = 0 AND expires_at > moment THEN expires_at END
FROM (SELECT /*moment*/statement_timestamp() AS moment) AS clock
WHERE id = ANY (ARRAY(
    SELECT CAST(id AS /*id*/uuid) FROM json_array_elements_text(CAST(CAST(:jobs AS text) AS json)) AS sent (id)
)) AND CASE WHEN status IN ('dead_letter', 'cancelled') THEN true END;

-- retry_jobs: let dead letters and cancelled jobs begin anew.
-- params: now timestamptz, jobs json
-- returns: none
-- concurrency: inside the write transaction that read them. What still waits for chains is blocked again, all else is
--   claimable, behind who waits already, but not before the time it was scheduled for. The generation stays: whoever held the job before is fenced off.
--   The last error stays to be seen until the next attempt ends, but refusals count anew; a time of expiry that has passed would only cancel the
--   job again, and one that was started no longer expires.
-- locks: the database's write lock.
UPDATE /*schema.*/job AS job
SET status = iif(waiting_for > 0, 'blocked', 'pending'), ready_at = max(:now, scheduled_at),
    held = 0, limited = 0, attempt = 0, crash_count = 0,
    finished_at = NULL, cancel_requested_at = NULL, cancel_request = NULL,
    last_attempt_error = json_remove(last_attempt_error, '$.first_refused_at'),
    expires_at = iif(attempt = 0 AND expires_at > :now, expires_at, NULL)
WHERE id IN (SELECT value FROM json_each(:jobs)) AND status IN ('dead_letter', 'cancelled');

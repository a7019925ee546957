-- retry_jobs: let dead letters and cancelled jobs begin anew.
-- params: now timestamptz, jobs json
-- returns: none
-- concurrency: inside the write transaction that read them. What still waits for chains is blocked again, all else is
--   claimable, behind who waits already. The generation stays: whoever held the job before is fenced off.
--   The last error stays to be seen until the next attempt ends; a time of expiry that has passed would only cancel the
--   job again.
-- locks: the database's write lock.
UPDATE /*schema.*/job AS job
SET status = iif(waiting_for > 0, 'blocked', 'pending'), ready_at = :now, held = 0, attempt = 0, crash_count = 0,
    finished_at = NULL, cancel_requested_at = NULL, expires_at = iif(expires_at > :now, expires_at, NULL)
WHERE id IN (SELECT value FROM json_each(:jobs)) AND status IN ('dead_letter', 'cancelled');

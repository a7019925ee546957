-- cancel_jobs: end jobs that wait; ask those that run to end.
-- params: now timestamptz, jobs json, error json
-- returns: none
-- concurrency: inside the write transaction that read them. A running job stays its holder's, who finds the request when
--   he renews his lease; the first request's time stays.
-- locks: the database's write lock.
UPDATE /*schema.*/job AS job
SET status = iif(status = 'running', status, 'cancelled'),
    finished_at = iif(status = 'running', NULL, :now),
    cancel_requested_at = iif(status = 'running', ifnull(cancel_requested_at, :now), cancel_requested_at),
    last_attempt_error = iif(status = 'running', last_attempt_error, :error)
WHERE id IN (SELECT value FROM json_each(:jobs)) AND status IN ('blocked', 'pending', 'running');

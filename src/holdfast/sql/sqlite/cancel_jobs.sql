-- cancel_jobs: end jobs that wait; ask those that run to end.
-- params: now timestamptz, jobs json, error json, chain boolean
-- returns: queue text (those in which the next job of a partition key may be claimed by this)
-- concurrency: inside the write transaction that read them. A running job stays its holder's, who finds the request when
--   he renews his lease; the first request's time and reason stay, and are found by whatever ends the job otherwise
--   than completed. With chain, a next job is not to run either.
-- locks: the database's write lock.
-- part: freed
SELECT json_group_array(DISTINCT queue) AS freed FROM /*schema.*/job AS job
WHERE id IN (SELECT value FROM json_each(:jobs)) AND status IN ('blocked', 'pending') AND partition_key IS NOT NULL
  AND (held = 0 OR limited = 1);
-- part: changed
UPDATE /*schema.*/job AS job
SET status = iif(status = 'running', status, 'cancelled'),
    finished_at = iif(status = 'running', NULL, :now),
    cancel_requested_at = iif(status = 'running', ifnull(cancel_requested_at, :now), cancel_requested_at),
    cancel_request = iif(status = 'running', json_object(
        'error', json(ifnull(json_extract(cancel_request, '$.error'), :error)),
        'is_chain', ifnull(json_extract(cancel_request, '$.is_chain'), 0) OR :chain), NULL),
    last_attempt_error = iif(status = 'running', last_attempt_error, :error)
WHERE id IN (SELECT value FROM json_each(:jobs)) AND status IN ('blocked', 'pending', 'running');
-- part: woken
SELECT value AS queue FROM json_each(:freed);

-- list_attempts: the attempts of a job that did not complete it, oldest first.
-- params: id text
-- returns: attempt json
-- concurrency: read only.
-- locks: none.
SELECT json_object(
    'attempt', attempt, 'lease_generation', lease_generation, 'worker_id', worker_id, 'started_at', started_at,
    'ended_at', ended_at, 'outcome', outcome, 'error', json(error)
) AS attempt
FROM /*schema.*/job_attempt AS job_attempt WHERE job_id = :id
ORDER BY lease_generation LIMIT 100;

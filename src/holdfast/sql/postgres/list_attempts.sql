-- list_attempts: the attempts of a job that did not complete it, oldest first.
-- params: id text
-- returns: attempt json
-- concurrency: read only.
-- locks: none.
SELECT to_json(job_attempt)::text AS attempt
FROM /*schema.*/job_attempt AS job_attempt WHERE job_id = CAST(:id AS /*id*/uuid)
ORDER BY lease_generation LIMIT 100;

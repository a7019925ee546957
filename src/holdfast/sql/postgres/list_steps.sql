-- list_steps: the saved steps of a job, in the order of their saving.
-- params: id text
-- returns: step json
-- concurrency: read only.
-- locks: none.
SELECT to_json(job_step)::text AS step
FROM /*schema.*/job_step AS job_step WHERE job_id = CAST(:id AS /*id*/uuid)
ORDER BY saved_at, name;

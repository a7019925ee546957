-- list_steps: the saved steps of a job, in the order of their saving.
-- params: id text
-- returns: step json
-- concurrency: read only.
-- locks: none.
SELECT to_json(known)::text AS step
FROM (
    SELECT job_step.*, result IS NULL AS is_open FROM /*schema.*/job_step AS job_step
    WHERE job_id = CAST(:id AS /*id*/uuid)
) AS known
ORDER BY saved_at, name;

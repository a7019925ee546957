-- list_logs: what a job's handlers wrote down, oldest first.
-- params: id text
-- returns: line json
-- concurrency: read only.
-- locks: none.
SELECT to_json(job_log)::text AS line
FROM /*schema.*/job_log AS job_log WHERE job_id = CAST(:id AS /*id*/uuid)
ORDER BY seq LIMIT 1000;

-- list_logs: what a job's handlers wrote down, oldest first.
-- params: id text
-- returns: line json
-- concurrency: read only.
-- locks: none.
SELECT json_object('seq', seq, 'job_id', job_id, 'lease_generation', lease_generation, 'logged_at', logged_at,
                   'level', level, 'message', message, 'fields', json(fields)) AS line
FROM /*schema.*/job_log AS job_log WHERE job_id = :id
ORDER BY seq LIMIT 1000;

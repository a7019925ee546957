-- write_logs: keep what handlers wrote down, in their order.
-- params: now timestamptz, lines json
-- returns: none
-- concurrency: fenced by (id, lease_generation): a line may come after the end of its attempt, but not from somebody whose
--   job is another's by now, nor for a job that is gone.
-- locks: the database's write lock.
INSERT INTO /*schema.*/job_log (job_id, lease_generation, logged_at, level, message, fields)
SELECT job.id, job.lease_generation,
       strftime('%Y-%m-%dT%H:%M:%f', :now, printf('-%.3f seconds', json_extract(line.value, '$.age_ms') / 1000.0)) || '000Z',
       json_extract(line.value, '$.level'), json_extract(line.value, '$.message'), json_extract(line.value, '$.fields')
FROM json_each(:lines) AS line
CROSS JOIN /*schema.*/job AS job ON job.id = json_extract(line.value, '$.job_id')
WHERE job.lease_generation = json_extract(line.value, '$.lease_generation');

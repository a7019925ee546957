-- reschedule_jobs: give jobs that have not begun another time.
-- params: now timestamptz, jobs json, at timestamptz, delay_ms bigint
-- returns: none
-- concurrency: inside the write transaction that read them. A time that has passed means now, so a worker that has already
--   looked further finds the job all the same. A blocked job keeps the time for when its blockers are done.
--   The time until then is no refusal's, so these count anew.
--   A wait of the job's own that has an end ends then.
-- locks: the database's write lock.
-- part: moved
UPDATE /*schema.*/job_step AS job_step
SET ends_at = max(:now, ifnull(:at, strftime('%Y-%m-%dT%H:%M:%f', :now, printf('+%.3f seconds', :delay_ms / 1000.0)) || '000Z'))
FROM (
    SELECT job.id, job.step, job.lease_generation
    FROM json_each(:jobs) CROSS JOIN /*schema.*/job AS job ON job.id = value WHERE job.status = 'pending'
) AS waiting
WHERE job_step.job_id = waiting.id AND job_step.name = waiting.step
  AND job_step.lease_generation = waiting.lease_generation AND job_step.ends_at IS NOT NULL AND job_step.result IS NULL;
-- part: updated
UPDATE /*schema.*/job AS job
SET scheduled_at = due, held = held AND NOT limited, limited = 0, ready_at = iif(status = 'pending', due, ready_at),
    last_attempt_error = json_remove(last_attempt_error, '$.first_refused_at')
FROM (
    SELECT max(:now, ifnull(:at, strftime('%Y-%m-%dT%H:%M:%f', :now, printf('+%.3f seconds', :delay_ms / 1000.0)) || '000Z'))
           AS due
) AS schedule
WHERE id IN (SELECT value FROM json_each(:jobs)) AND status IN ('blocked', 'pending');

-- reschedule_jobs: give jobs that have not begun another time.
-- params: now timestamptz, jobs json, at timestamptz, delay_ms bigint
-- returns: none
-- concurrency: inside the write transaction that read them. A time that has passed means now, so a worker that has already
--   looked further finds the job all the same. A blocked job keeps the time for when its blockers are done.
-- locks: the database's write lock.
UPDATE /*schema.*/job AS job
SET scheduled_at = due, ready_at = iif(status = 'pending', due, ready_at)
FROM (
    SELECT max(:now, ifnull(:at, strftime('%Y-%m-%dT%H:%M:%f', :now, printf('+%.3f seconds', :delay_ms / 1000.0)) || '000Z'))
           AS due
) AS schedule
WHERE id IN (SELECT value FROM json_each(:jobs)) AND status IN ('blocked', 'pending');

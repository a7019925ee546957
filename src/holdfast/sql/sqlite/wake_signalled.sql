-- wake_signalled: let jobs go on that wait for a signal which has come.
-- params: now timestamptz, jobs json
-- returns: queue text
-- concurrency: inside the write transaction that made them wait or has sent the signal. A job that was claimed since it began
--   to wait, or whose time is over, is left alone.
-- locks: the database's write lock.
UPDATE /*schema.*/job AS job
SET status = 'pending', waiting_for = 0, ready_at = iif(status = 'blocked', max(scheduled_at, :now), :now)
WHERE id IN (SELECT value FROM json_each(:jobs))
  AND (status = 'blocked' OR status = 'pending' AND ready_at > :now)
  AND EXISTS (
      SELECT 1 FROM /*schema.*/job_step AS job_step
      CROSS JOIN /*schema.*/job_signal AS job_signal
          ON job_signal.chain_id = job.chain_id AND job_signal.name = job_step.signal
      WHERE job_step.job_id = job.id AND job_step.name = job.step AND job_step.lease_generation = job.lease_generation
        AND job_step.kind = 'signal' AND job_step.result IS NULL
  )
RETURNING queue;

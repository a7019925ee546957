-- wake_signalled: let jobs go on that wait for a signal which has come.
-- params: now timestamptz, jobs json
-- returns: queue text
-- concurrency: the rows are locked before, by whoever made them wait or has sent the signal in the same transaction, so that
--   this statement begins with a look at what the other one has committed. A job that was claimed since it began to wait, or
--   whose time is over, is left alone.
--   The states are in a CASE to keep the planner off the indexes of certain states, which it would read as a whole.
-- locks: job rows that are locked already.
UPDATE /*schema.*/job AS job
SET status = 'pending',
    waiting_for = 0,
    ready_at = CASE WHEN status = 'blocked' THEN greatest(scheduled_at, moment) ELSE moment END
FROM (SELECT /*moment*/statement_timestamp() AS moment) AS clock
WHERE id = ANY (ARRAY(
    SELECT CAST(id AS /*id*/uuid) FROM json_array_elements_text(CAST(CAST(:jobs AS text) AS json)) AS sent (id)
))
  AND CASE WHEN status = 'blocked' THEN true WHEN status = 'pending' THEN ready_at > moment END
  AND EXISTS (
      SELECT FROM /*schema.*/job_step AS job_step
      JOIN /*schema.*/job_signal AS job_signal ON job_signal.name = job_step.signal
      WHERE job_step.job_id = job.id AND job_step.name = job.step AND job_step.lease_generation = job.lease_generation
        AND job_step.kind = 'signal' AND job_step.result IS NULL AND job_signal.chain_id = job.chain_id
  )
RETURNING queue;

-- take_signal: give the holder of a job the first signal of a name that was sent to its chain, as a step that is saved.
-- params: now timestamptz, id text, lease_generation bigint, name text, signal text
-- returns: outcome text ('held'; else why the job is not the holder's: 'completed', 'completed_here', 'cancelled',
--   'deleted', 'lost'), result json (null while there is none; an object with the payload, or with timed_out where the wait
--   has an end that has passed)
-- concurrency: fenced by (id, lease_generation, running), inside a write transaction: the signal goes and the step comes.
--   Asked again, because the answer was lost, it gives the same one.
-- locks: the database's write lock.
-- part: taken
SELECT (
    SELECT min(job_signal.seq)
    FROM /*schema.*/job AS job CROSS JOIN /*schema.*/job_signal AS job_signal ON job_signal.chain_id = job.chain_id
    WHERE job.id = :id AND job.lease_generation = :lease_generation AND job.status = 'running'
      AND job_signal.name = :signal AND NOT EXISTS (
          SELECT 1 FROM /*schema.*/job_step AS job_step
          WHERE job_step.job_id = :id AND job_step.name = :name AND job_step.result IS NOT NULL
      )
) AS taken;
-- part: saved
INSERT INTO /*schema.*/job_step (job_id, name, kind, signal, result, lease_generation, saved_at)
SELECT :id, :name, 'signal', :signal, json_object('payload', json(payload)), :lease_generation, :now
FROM /*schema.*/job_signal AS job_signal WHERE seq = :taken
ON CONFLICT (job_id, name) DO UPDATE
SET result = excluded.result, lease_generation = excluded.lease_generation, saved_at = excluded.saved_at;
-- part: gone
DELETE FROM /*schema.*/job_signal WHERE seq = :taken;
-- part: timed_out
UPDATE /*schema.*/job_step AS job_step
SET result = json_object('timed_out', json('true')), lease_generation = :lease_generation, saved_at = :now
WHERE job_id = :id AND name = :name AND result IS NULL AND ends_at <= :now AND EXISTS (
    SELECT 1 FROM /*schema.*/job AS job
    WHERE job.id = :id AND job.lease_generation = :lease_generation AND job.status = 'running'
);
-- part: noted
UPDATE /*schema.*/job AS job SET step = :name
WHERE id = :id AND lease_generation = :lease_generation AND status = 'running' AND EXISTS (
    SELECT 1 FROM /*schema.*/job_step AS job_step
    WHERE job_step.job_id = :id AND job_step.name = :name AND job_step.result IS NOT NULL
);
-- part: outcome
SELECT ifnull((
    SELECT CASE WHEN status = 'completed' AND completed_by IS NULL THEN 'completed'
                WHEN lease_generation <> :lease_generation THEN 'lost'
                WHEN status = 'running' THEN 'held'
                WHEN status = 'completed' THEN 'completed_here'
                WHEN status = 'cancelled' THEN 'cancelled'
                ELSE 'lost' END
    FROM /*schema.*/job AS job WHERE id = :id
), 'deleted') AS outcome,
(SELECT job_step.result FROM /*schema.*/job_step AS job_step WHERE job_step.job_id = :id AND job_step.name = :name) AS result;

-- save_step: remember the result of a step of a job that its holder still holds.
-- params: now timestamptz, id text, lease_generation bigint, name text, result json
-- returns: outcome text ('held' = saved; else why the job is not the holder's: 'completed', 'completed_here',
--   'cancelled', 'deleted', 'lost')
-- concurrency: fenced by (id, lease_generation, running). Saving again keeps the first result: the answer to the first try
--   may have been lost.
-- locks: the database's write lock.
-- part: saved
INSERT INTO /*schema.*/job_step (job_id, name, result, lease_generation, saved_at)
SELECT id, :name, :result, :lease_generation, :now
FROM /*schema.*/job AS job
WHERE id = :id AND lease_generation = :lease_generation AND status = 'running'
ON CONFLICT (job_id, name) DO NOTHING;
-- part: noted
UPDATE /*schema.*/job AS job SET step = :name
WHERE id = :id AND lease_generation = :lease_generation AND status = 'running';
-- part: outcome
SELECT ifnull((
    SELECT CASE WHEN status = 'completed' AND completed_by IS NULL THEN 'completed'
                WHEN lease_generation <> :lease_generation THEN 'lost'
                WHEN status = 'running' THEN 'held'
                WHEN status = 'completed' THEN 'completed_here'
                WHEN status = 'cancelled' THEN 'cancelled'
                ELSE 'lost' END
    FROM /*schema.*/job AS job WHERE id = :id
), 'deleted') AS outcome;

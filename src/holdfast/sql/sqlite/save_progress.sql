-- save_progress: note how far a job is that its holder still holds.
-- params: id text, lease_generation bigint, progress json
-- returns: outcome text ('held' = noted; else why the job is not the holder's: 'completed', 'completed_here',
--   'cancelled', 'deleted', 'lost')
-- concurrency: fenced by (id, lease_generation, running).
-- locks: the database's write lock.
-- part: noted
UPDATE /*schema.*/job AS job SET progress = :progress
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

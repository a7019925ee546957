-- save_children: remember the chains that the holder of a job has enqueued in the same transaction, under the name of a step.
-- params: now timestamptz, id text, lease_generation bigint, name text, children json
-- returns: outcome text ('held' = saved; else why the job is not the holder's: 'completed', 'completed_here', 'cancelled',
--   'deleted', 'lost')
-- concurrency: fenced by (id, lease_generation, running). From then on nobody may delete them before the job has ended.
--   Saving again changes nothing.
-- locks: the database's write lock.
-- part: needed
INSERT INTO /*schema.*/job_blocker (job_id, blocked_by_chain_id, "index", is_resolved, name)
SELECT :id, json_extract(value, '$.chain_id'), next.place + json_extract(value, '$.place'), 1, :name
FROM json_each(:children)
CROSS JOIN (
    SELECT ifnull(max(job_blocker."index") + 1, 0) AS place FROM /*schema.*/job_blocker AS job_blocker WHERE job_id = :id
) AS next
WHERE EXISTS (
    SELECT 1 FROM /*schema.*/job AS job
    WHERE job.id = :id AND job.lease_generation = :lease_generation AND job.status = 'running'
) AND NOT EXISTS (SELECT 1 FROM /*schema.*/job_step AS job_step WHERE job_step.job_id = :id AND job_step.name = :name);
-- part: saved
INSERT INTO /*schema.*/job_step (job_id, name, kind, result, lease_generation, saved_at)
SELECT id, :name, 'child', :children, :lease_generation, :now
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

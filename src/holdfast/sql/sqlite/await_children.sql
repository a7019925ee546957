-- await_children: note which of its children a job is going to wait for; it runs on until it is suspended.
-- params: id text, lease_generation bigint, chains json, on_failure text
-- returns: outcome text ('held' = noted; 'behind' = a child can never run; else why the job is not the holder's: 'completed',
--   'completed_here', 'cancelled', 'deleted', 'lost'), behind text (null, or such a child: it is behind the job in its own
--   partition key)
-- concurrency: fenced by (id, lease_generation, running), inside the write transaction that read the children's states.
--   Whoever ends one then counts down waiting_for, whether the job runs or waits.
-- locks: the database's write lock.
-- part: changed
UPDATE /*schema.*/job_blocker AS job_blocker
SET is_resolved = name IS NULL OR blocked_by_chain_id NOT IN (SELECT value FROM json_each(:chains))
WHERE job_id = :id AND EXISTS (
    SELECT 1 FROM /*schema.*/job AS job
    WHERE job.id = :id AND job.lease_generation = :lease_generation AND job.status = 'running'
);
-- part: noted
UPDATE /*schema.*/job AS job
SET waiting_for = (SELECT count(*) FROM /*schema.*/job_blocker AS job_blocker
                   WHERE job_blocker.job_id = :id AND job_blocker.is_resolved = 0),
    on_blocker_failure = :on_failure
WHERE id = :id AND lease_generation = :lease_generation AND status = 'running';
-- part: behind
SELECT max(child.chain_id) AS behind
FROM /*schema.*/job AS job
CROSS JOIN json_each(:chains)
CROSS JOIN /*schema.*/job AS child ON child.id = value
WHERE job.id = :id AND job.lease_generation = :lease_generation AND job.status = 'running'
  AND child.queue = job.queue AND child.partition_key = job.partition_key
  AND child.ordering = 'fifo' AND child.partition_seq > job.partition_seq AND child.status IN ('blocked', 'pending');
-- part: outcome
SELECT ifnull((
    SELECT CASE WHEN :behind IS NOT NULL THEN 'behind'
                WHEN status = 'completed' AND completed_by IS NULL THEN 'completed'
                WHEN lease_generation <> :lease_generation THEN 'lost'
                WHEN status = 'running' THEN 'held'
                WHEN status = 'completed' THEN 'completed_here'
                WHEN status = 'cancelled' THEN 'cancelled'
                ELSE 'lost' END
    FROM /*schema.*/job AS job WHERE id = :id
), 'deleted') AS outcome, :behind AS behind;

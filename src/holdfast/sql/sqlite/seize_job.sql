-- seize_job: take a job from whoever holds it, to end it in the same transaction.
-- params: now timestamptz, id text
-- returns: lease_generation bigint
-- concurrency: inside a write transaction. The new generation shuts out the holder, whatever it writes.
--   Where another job of its partition key runs, that one stays the holder.
-- locks: the database's write lock.
UPDATE /*schema.*/job AS job
SET status = 'running', limited = 0,
    held = partition_key IS NOT NULL AND EXISTS (
        SELECT 1 FROM /*schema.*/job AS holder
        WHERE holder.queue = job.queue AND holder.partition_key = job.partition_key
          AND holder.status = 'running' AND holder.held = 0 AND holder.seq <> job.seq
    ),
    cancel_request = NULL, lease_generation = lease_generation + 1, leased_by = 'nobody', leased_until = :now
WHERE id = :id AND status IN ('blocked', 'pending', 'running')
RETURNING lease_generation;

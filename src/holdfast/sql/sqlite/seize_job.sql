-- seize_job: take a job from whoever holds it, to end it in the same transaction.
-- params: now timestamptz, id text
-- returns: lease_generation bigint
-- concurrency: inside a write transaction. The new generation shuts out the holder, whatever it writes.
-- locks: the database's write lock.
UPDATE /*schema.*/job AS job
SET status = 'running', held = 0, lease_generation = lease_generation + 1, leased_by = 'nobody', leased_until = :now
WHERE id = :id AND status IN ('blocked', 'pending', 'running')
RETURNING lease_generation;

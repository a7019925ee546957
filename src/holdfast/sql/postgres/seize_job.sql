-- seize_job: take a job from whoever holds it, to end it in the same transaction.
-- params: now timestamptz, id text
-- returns: lease_generation bigint
-- concurrency: the row is locked before, so its status stands. The new generation shuts out the holder, whatever it writes.
--   It is not the holder of its partition key, where another one may run; whoever is the next is seen to when it ends.
-- locks: a job row that is locked already.
UPDATE /*schema.*/job AS job
SET status = 'running', held = partition_key IS NOT NULL, limited = false, cancel_request = NULL, lease_generation = lease_generation + 1, leased_by = 'nobody',
    leased_until = /*moment*/statement_timestamp()
WHERE id = CAST(:id AS /*id*/uuid) AND status IN ('blocked', 'pending', 'running')
RETURNING lease_generation;

-- enter_shares: after its limits have changed, enter whoever runs jobs of a queue, with no share; drop all without limits.
-- params: now timestamptz, queue text
-- returns: none
-- concurrency: the queue's row is locked. What runs counts before its workers have heard of the limit, so nobody else is
--   given what they use. They can claim no more until they have asked for a share.
-- locks: the database's write lock.
-- part: dropped
DELETE FROM /*schema.*/queue_share AS share
WHERE queue = :queue AND NOT EXISTS (
    SELECT 1 FROM /*schema.*/queue AS limited WHERE name = :queue AND (concurrency IS NOT NULL OR rate IS NOT NULL)
);
-- part: entered
INSERT INTO /*schema.*/queue_share AS known (queue, worker_id, in_use, changed_at)
SELECT :queue, job.leased_by, count(*), :now
FROM /*schema.*/job AS job
WHERE job.status = 'running' AND job.queue = :queue AND EXISTS (
    SELECT 1 FROM /*schema.*/queue AS limited WHERE name = :queue AND (concurrency IS NOT NULL OR rate IS NOT NULL)
)
GROUP BY job.leased_by
ON CONFLICT (queue, worker_id) DO UPDATE SET in_use = max(known.in_use, excluded.in_use);

-- find_members: who takes part in the hash rings, and with which queues.
-- params: now timestamptz, dead_after_ms bigint
-- returns: id text, queues text
-- concurrency: read only; reads every worker. Two workers may see different members for as long as neither looks again:
--   buckets are a preference, no promise rests on them.
-- locks: none.
SELECT worker.id, CAST(worker.queues AS text) AS queues
FROM /*schema.*/worker AS worker
WHERE worker.status = 'alive' AND worker.metadata ->> 'affinity' = 'ring'
  AND worker.last_seen_at >= /*moment*/statement_timestamp()
                             - CAST(:dead_after_ms AS bigint) * interval '1 millisecond';

-- find_members: who takes part in the hash rings, and with which queues.
-- params: now timestamptz, dead_after_ms bigint
-- returns: id text, queues text
-- concurrency: read only; reads every worker. Two workers may see different members for as long as neither looks again:
--   buckets are a preference, no promise rests on them.
-- locks: none.
SELECT worker.id, worker.queues
FROM /*schema.*/worker AS worker
WHERE worker.status = 'alive' AND json_extract(worker.metadata, '$.affinity') = 'ring'
  AND worker.last_seen_at >= strftime('%Y-%m-%dT%H:%M:%f', :now, printf('-%.3f seconds', :dead_after_ms / 1000.0)) || '000Z';

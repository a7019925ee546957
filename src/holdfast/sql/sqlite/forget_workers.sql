-- forget_workers: mark silent workers dead, and drop those that have been dead for a day and hold nothing.
-- params: now timestamptz, dead_after_ms bigint
-- returns: id text (newly dead)
-- concurrency: a worker that was only slow sets itself alive again with its next heartbeat.
-- locks: the database's write lock.
-- part: dropped
DELETE FROM /*schema.*/worker AS worker
WHERE status = 'dead' AND last_seen_at < strftime('%Y-%m-%dT%H:%M:%f', :now, '-1 day') || '000Z'
  AND id NOT IN (SELECT leased_by FROM /*schema.*/job AS job WHERE status = 'running');
-- part: unmarked
DELETE FROM /*schema.*/prefetch AS prefetch
WHERE claimed_at < strftime('%Y-%m-%dT%H:%M:%f', :now, '-1 day') || '000Z'
  AND worker_id NOT IN (SELECT id FROM /*schema.*/worker AS worker)
  AND worker_id NOT IN (SELECT leased_by FROM /*schema.*/job AS job WHERE status = 'running');
-- part: silent
UPDATE /*schema.*/worker AS worker SET status = 'dead'
WHERE status <> 'dead' AND last_seen_at < strftime('%Y-%m-%dT%H:%M:%f', :now, printf('-%.3f seconds', :dead_after_ms / 1000.0)) || '000Z'
RETURNING id;

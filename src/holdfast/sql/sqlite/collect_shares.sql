-- collect_shares: take back the shares of workers that are gone, and read those that are dealt out.
-- params: queue text, worker text
-- returns: worker_id text, permits integer, in_use integer, wanted integer, rate bigint, burst integer
-- concurrency: the queue's row is locked (lock_queue). A worker is gone when it has left or is marked dead, and nothing of
--   this queue is leased by it any more: until its jobs are taken back, its share is in use. Should it live after all, its
--   claims find no share.
-- locks: the database's write lock.
-- part: gone
DELETE FROM /*schema.*/queue_share AS share
WHERE queue = :queue AND worker_id <> :worker
  AND NOT EXISTS (SELECT 1 FROM /*schema.*/worker AS worker WHERE worker.id = share.worker_id AND worker.status <> 'dead')
  AND NOT EXISTS (
      SELECT 1 FROM /*schema.*/job AS job
      WHERE job.status = 'running' AND job.leased_by = share.worker_id AND job.queue = share.queue
  );
-- part: shares
SELECT worker_id, permits, in_use, wanted, rate, burst FROM /*schema.*/queue_share AS share
WHERE queue = :queue
ORDER BY worker_id;

-- share_queue: give a worker its share of a queue's limits.
-- params: now timestamptz, queue text, worker text, permits integer, in_use integer, wanted integer, rate bigint, burst integer
-- returns: granted integer, granted_rate bigint, granted_burst integer (what it has; no row if the queue has no limits)
-- concurrency: the queue's row is locked (lock_queue). Whatever is asked for, the shares of all never add up to more than the
--   limit: a share that would is left as it was. Less may always be had. A worker that runs more than its permits counts
--   with what it runs.
-- locks: the database's write lock.
INSERT INTO /*schema.*/queue_share AS known (queue, worker_id, permits, in_use, wanted, rate, burst, changed_at)
SELECT limited.name, :worker,
       CASE WHEN :permits <= mine.permits OR others.permits + :permits <= limited.concurrency
            THEN :permits ELSE ifnull(mine.permits, 0) END,
       :in_use, :wanted,
       CASE WHEN :rate <= mine.rate OR others.rate + :rate <= CAST(limited.rate * 1000000 AS INTEGER)
            THEN :rate ELSE ifnull(mine.rate, 0) END,
       CASE WHEN :burst <= mine.burst OR others.burst + :burst <= limited.burst
            THEN :burst ELSE ifnull(mine.burst, 0) END,
       :now
FROM /*schema.*/queue AS limited
LEFT JOIN /*schema.*/queue_share AS mine ON mine.queue = limited.name AND mine.worker_id = :worker
CROSS JOIN (
    SELECT ifnull(sum(max(other.permits, other.in_use)), 0) AS permits, ifnull(sum(other.rate), 0) AS rate,
           ifnull(sum(other.burst), 0) AS burst
    FROM /*schema.*/queue_share AS other
    WHERE other.queue = :queue AND other.worker_id <> :worker
) AS others
WHERE limited.name = :queue AND (limited.concurrency IS NOT NULL OR limited.rate IS NOT NULL)
ON CONFLICT (queue, worker_id) DO UPDATE
SET permits = excluded.permits, in_use = excluded.in_use, wanted = excluded.wanted, rate = excluded.rate,
    burst = excluded.burst, changed_at = excluded.changed_at
RETURNING permits AS granted, rate AS granted_rate, burst AS granted_burst;

-- share_queue: give a worker its share of a queue's limits.
-- params: now timestamptz, queue text, worker text, permits integer, in_use integer, wanted integer, rate bigint, burst integer
-- returns: granted integer, granted_rate bigint, granted_burst integer (what it has; no row if the queue has no limits)
-- concurrency: the queue's row is locked (lock_queue). Whatever is asked for, the shares of all never add up to more than the
--   limit: a share that would is left as it was. Less may always be had. A worker that runs more than its permits counts
--   with what it runs.
-- locks: one queue_share row, which nobody else writes.
INSERT INTO /*schema.*/queue_share AS known (queue, worker_id, permits, in_use, wanted, rate, burst, changed_at)
SELECT limited.name, CAST(:worker AS text),
       CASE WHEN CAST(:permits AS integer) <= mine.permits
              OR others.permits + CAST(:permits AS integer) <= limited.concurrency
            THEN CAST(:permits AS integer) ELSE coalesce(mine.permits, 0) END,
       CAST(:in_use AS integer), CAST(:wanted AS integer),
       CASE WHEN CAST(:rate AS bigint) <= mine.rate
              OR others.rate + CAST(:rate AS bigint) <= floor(limited.rate * 1000000)
            THEN CAST(:rate AS bigint) ELSE coalesce(mine.rate, 0) END,
       CASE WHEN CAST(:burst AS integer) <= mine.burst
              OR others.burst + CAST(:burst AS integer) <= limited.burst
            THEN CAST(:burst AS integer) ELSE coalesce(mine.burst, 0) END,
       /*moment*/statement_timestamp()
FROM /*schema.*/queue AS limited
LEFT JOIN /*schema.*/queue_share AS mine ON mine.queue = limited.name AND mine.worker_id = CAST(:worker AS text)
CROSS JOIN LATERAL (
    SELECT coalesce(sum(greatest(other.permits, other.in_use)), 0) AS permits, coalesce(sum(other.rate), 0) AS rate,
           coalesce(sum(other.burst), 0) AS burst
    FROM /*schema.*/queue_share AS other
    WHERE other.queue = limited.name AND other.worker_id <> CAST(:worker AS text)
) AS others
WHERE limited.name = CAST(:queue AS text) AND (limited.concurrency IS NOT NULL OR limited.rate IS NOT NULL)
ON CONFLICT (queue, worker_id) DO UPDATE
SET permits = excluded.permits, in_use = excluded.in_use, wanted = excluded.wanted, rate = excluded.rate,
    burst = excluded.burst, changed_at = excluded.changed_at
RETURNING permits AS granted, rate AS granted_rate, burst AS granted_burst;

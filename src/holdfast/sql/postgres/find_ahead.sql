-- find_ahead: the job of the same partition key that keeps a job from running: one that runs, else the first that is in front.
-- params: id text
-- returns: id text, status text (no row if nothing does)
-- concurrency: read only; three descents, however many jobs the key has.
-- locks: none.
SELECT ahead.id::text, ahead.status
FROM /*schema.*/job AS job
CROSS JOIN LATERAL (
    (
        SELECT other.id, other.status, 0 AS rank FROM /*schema.*/job AS other
        WHERE other.queue = job.queue AND other.partition_key = job.partition_key
          AND other.status = 'running' AND NOT other.held
        LIMIT 1
    )
    UNION ALL
    (
        SELECT other.id, other.status, 1 FROM /*schema.*/job AS other
        WHERE other.queue = job.queue AND other.partition_key = job.partition_key
          AND other.status IN ('blocked', 'pending')
          AND job.ordering = 'fifo' AND other.partition_seq < job.partition_seq
        ORDER BY other.partition_seq LIMIT 1
    )
) AS ahead
WHERE job.id = CAST(:id AS /*id*/uuid) AND ahead.id <> job.id
ORDER BY ahead.rank LIMIT 1;

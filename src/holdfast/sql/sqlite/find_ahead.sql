-- find_ahead: the job of the same partition key that keeps a job from running: one that runs, else the first that is in front.
-- params: id text
-- returns: id text, status text (no row if nothing does)
-- concurrency: read only; three descents, however many jobs the key has.
-- locks: none.
SELECT ahead.id, ahead.status
FROM /*schema.*/job AS job
CROSS JOIN /*schema.*/job AS ahead ON ahead.seq = ifnull(
    (
        SELECT seq FROM /*schema.*/job AS other
        WHERE other.queue = job.queue AND other.partition_key = job.partition_key
          AND other.status = 'running' AND other.held = 0
    ),
    (
        SELECT seq FROM /*schema.*/job AS other
        WHERE other.queue = job.queue AND other.partition_key = job.partition_key
          AND other.status IN ('blocked', 'pending', 'running')
          AND job.ordering = 'fifo' AND other.partition_seq < job.partition_seq
        ORDER BY other.partition_seq LIMIT 1
    )
)
WHERE job.id = :id AND ahead.id <> job.id;

-- find_stranded: a page of partition keys in which jobs are held, and whether nobody is there who would put them back.
-- params: now timestamptz, after_queue text, after_key text
-- returns: queue text, partition_key text, is_stranded boolean
-- concurrency: read only; one descent per key, however many jobs are held behind it.
-- locks: none.
WITH RECURSIVE key (queue, partition_key) AS (
    SELECT * FROM (
        SELECT queue, partition_key FROM /*schema.*/job AS job INDEXED BY /*name*/job_held_idx
        WHERE status = 'pending' AND held = 1 AND partition_key IS NOT NULL
          AND (queue, partition_key) > (ifnull(:after_queue, ''), ifnull(:after_key, ''))
        ORDER BY queue, partition_key LIMIT 1
    )
    UNION ALL
    SELECT job.queue, job.partition_key
    -- Twice one descent. Compared as a pair, SQLite begins with all that wait in this very key, or in this very queue.
    FROM key CROSS JOIN /*schema.*/job AS job ON job.seq = coalesce(
        (
            SELECT seq FROM /*schema.*/job AS next INDEXED BY /*name*/job_held_idx
            WHERE next.status = 'pending' AND next.held = 1 AND next.partition_key IS NOT NULL
              AND next.queue = key.queue AND next.partition_key > key.partition_key
            ORDER BY next.partition_key LIMIT 1
        ),
        (
            SELECT seq FROM /*schema.*/job AS next INDEXED BY /*name*/job_held_idx
            WHERE next.status = 'pending' AND next.held = 1 AND next.partition_key IS NOT NULL
              AND next.queue > key.queue
            ORDER BY next.queue, next.partition_key LIMIT 1
        )
    )
    LIMIT /*limit*/100
)
SELECT key.queue, key.partition_key,
       -- Not by AND: of that SQLite computes both sides, and the last question is one to all that wait in the key.
       CASE
           WHEN EXISTS (
               SELECT 1 FROM /*schema.*/job AS job
               WHERE job.queue = key.queue AND job.partition_key = key.partition_key
                 AND job.status = 'running' AND job.held = 0
           ) THEN 0
           WHEN (
               SELECT held AND NOT limited FROM /*schema.*/job AS front
               WHERE front.queue = key.queue AND front.partition_key = key.partition_key
                 AND front.status IN ('blocked', 'pending', 'running')
               ORDER BY front.partition_seq LIMIT 1
           ) THEN 1
           WHEN NOT EXISTS (
               SELECT 1 FROM /*schema.*/job AS job
               WHERE job.queue = key.queue AND job.partition_key = key.partition_key
                 AND job.status = 'pending' AND job.held = 1 AND job.limited = 0 AND job.ordering = 'serial'
           ) THEN 0
           WHEN NOT EXISTS (
               SELECT 1 FROM /*schema.*/job AS job
               WHERE job.queue = key.queue AND job.partition_key = key.partition_key
                 AND job.status IN ('blocked', 'pending', 'running') AND job.status = 'pending' AND job.held = 0
                 AND job.ready_at <= :now
           ) THEN 1
           -- What has flags perhaps nobody here takes: it hides none without.
           WHEN NOT EXISTS (
               SELECT 1 FROM /*schema.*/job AS job
               WHERE job.queue = key.queue AND job.partition_key = key.partition_key
                 AND job.status = 'pending' AND job.held = 1 AND job.limited = 0 AND job.ordering = 'serial'
                 AND job.flags IS NULL AND job.ready_at <= :now
           ) THEN 0
           WHEN (
               SELECT status = 'pending' AND held = 0 AND flags IS NULL AND ready_at <= :now FROM /*schema.*/job AS front
               WHERE front.queue = key.queue AND front.partition_key = key.partition_key
                 AND front.status IN ('blocked', 'pending', 'running')
               ORDER BY front.partition_seq LIMIT 1
           ) THEN 0
           ELSE NOT EXISTS (
               SELECT 1 FROM /*schema.*/job AS job
               WHERE job.queue = key.queue AND job.partition_key = key.partition_key
                 AND job.status = 'pending' AND job.held = 0 AND job.ordering = 'serial'
                 AND job.flags IS NULL AND job.ready_at <= :now
           )
       END AS is_stranded
FROM key;

-- find_stranded: a page of partition keys in which jobs are held, and whether nobody is there who would put them back.
-- params: now timestamptz, after_queue text, after_key text
-- returns: queue text, partition_key text, is_stranded boolean
-- concurrency: read only; one descent per key, however many jobs are held behind it.
-- locks: none.
WITH RECURSIVE key AS (
    (
        SELECT job.queue, job.partition_key FROM /*schema.*/job AS job
        WHERE job.status = 'pending' AND job.held AND job.partition_key IS NOT NULL
          AND (job.queue, job.partition_key) > (coalesce(CAST(:after_queue AS text), ''), coalesce(CAST(:after_key AS text), ''))
        ORDER BY job.queue, job.partition_key LIMIT 1
    )
    UNION ALL
    SELECT next.queue, next.partition_key
    FROM key CROSS JOIN LATERAL (
        SELECT job.queue, job.partition_key FROM /*schema.*/job AS job
        WHERE job.status = 'pending' AND job.held AND job.partition_key IS NOT NULL
          AND (job.queue, job.partition_key) > (key.queue, key.partition_key)
        ORDER BY job.queue, job.partition_key LIMIT 1
    ) AS next
)
SELECT page.queue, page.partition_key,
       NOT EXISTS (
           SELECT FROM /*schema.*/job AS job
           WHERE job.queue = page.queue AND job.partition_key = page.partition_key AND job.status = 'running' AND NOT job.held
       ) AND (
           EXISTS (
               SELECT FROM /*schema.*/job AS job
               WHERE job.queue = page.queue AND job.partition_key = page.partition_key AND job.leased_by IS NOT NULL AND job.held
           )
           OR front.held AND NOT front.limited
           OR EXISTS (
               SELECT FROM /*schema.*/job AS job
               WHERE job.queue = page.queue AND job.partition_key = page.partition_key
                 AND job.status = 'pending' AND job.held AND NOT job.limited AND job.ordering = 'serial'
           ) AND NOT EXISTS (
               SELECT FROM /*schema.*/job AS job
               WHERE job.queue = page.queue AND job.partition_key = page.partition_key
                 AND job.status IN ('blocked', 'pending') AND job.status = 'pending' AND NOT job.held
                 AND job.ready_at <= /*moment*/statement_timestamp()
           )
           -- What has flags perhaps nobody here takes: it hides none without.
           OR EXISTS (
               SELECT FROM /*schema.*/job AS job
               WHERE job.queue = page.queue AND job.partition_key = page.partition_key
                 AND job.status = 'pending' AND job.held AND NOT job.limited AND job.ordering = 'serial' AND job.flags IS NULL
                 AND job.ready_at <= /*moment*/statement_timestamp()
           ) AND NOT (
               front.status = 'pending' AND NOT front.held AND front.flags IS NULL
               AND front.ready_at <= /*moment*/statement_timestamp()
           ) AND NOT EXISTS (
               SELECT FROM /*schema.*/job AS job
               WHERE job.queue = page.queue AND job.partition_key = page.partition_key
                 AND job.status = 'pending' AND NOT job.held AND job.ordering = 'serial' AND job.flags IS NULL
                 AND job.ready_at <= /*moment*/statement_timestamp()
           )
       ) AS is_stranded
FROM (SELECT queue, partition_key FROM key LIMIT /*limit*/100) AS page
CROSS JOIN LATERAL (
    SELECT job.status, job.held, job.limited, job.flags, job.ready_at FROM /*schema.*/job AS job
    WHERE job.queue = page.queue AND job.partition_key = page.partition_key
      AND job.status IN ('blocked', 'pending')
    ORDER BY job.partition_seq LIMIT 1
) AS front;

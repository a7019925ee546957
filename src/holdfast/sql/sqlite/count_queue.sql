-- count_queue: what waits in a queue, by type; of the first /*limit*/10000 jobs in claim order,
--   and behind them of those that go by tenant.
-- params: now timestamptz, queue text
-- returns: type_name text, is_due boolean, jobs bigint, waiting_ms bigint
-- concurrency: read only.
-- locks: none.
SELECT type_name, ready_at <= :now AS is_due, count(*) AS jobs,
       CAST(round((julianday(:now) - julianday(min(ready_at))) * 86400000) AS INTEGER) AS waiting_ms
FROM (
    SELECT type_name, ready_at FROM (
        SELECT job.type_name, job.ready_at
        FROM /*schema.*/job AS job INDEXED BY /*name*/job_claim_idx
        WHERE job.status = 'pending' AND job.held = 0 AND job.crash_count = 0 AND job.is_fair = 0 AND job.queue = :queue
        ORDER BY job.priority, job.ready_at, job.seq
        LIMIT /*limit*/10000
    )
    UNION ALL
    SELECT type_name, ready_at FROM (
        SELECT job.type_name, job.ready_at
        FROM /*schema.*/job AS job INDEXED BY /*name*/job_fair_due_idx
        WHERE job.status = 'pending' AND job.held = 0 AND job.crash_count = 0 AND job.is_fair = 1 AND job.queue = :queue
        ORDER BY job.ready_at, job.seq
        LIMIT /*limit*/10000
    )
    LIMIT /*limit*/10000
)
GROUP BY 1, 2;

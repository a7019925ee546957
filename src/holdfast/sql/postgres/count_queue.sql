-- count_queue: what waits in a queue, by type; of the first /*limit*/10000 jobs in claim order,
--   and behind them of those that go by tenant.
-- params: now timestamptz, queue text
-- returns: type_name text, is_due boolean, jobs bigint, waiting_ms bigint
-- concurrency: read only.
-- locks: none.
SELECT type_name, ready_at <= moment AS is_due, count(*) AS jobs,
       (extract(epoch FROM max(moment) - min(ready_at)) * 1000)::bigint AS waiting_ms
FROM (
    (SELECT job.type_name, job.ready_at
     FROM /*schema.*/job AS job
     WHERE job.status = 'pending' AND NOT job.held AND job.crash_count = 0 AND NOT job.is_fair AND job.queue = CAST(:queue AS text)
     ORDER BY job.priority, job.ready_at, job.seq
     LIMIT /*limit*/10000)
    UNION ALL
    (SELECT job.type_name, job.ready_at
     FROM /*schema.*/job AS job
     WHERE job.status = 'pending' AND NOT job.held AND job.crash_count = 0 AND job.is_fair AND job.seq > 0
       AND job.queue = CAST(:queue AS text)
     ORDER BY job.ready_at, job.seq
     LIMIT /*limit*/10000)
    LIMIT /*limit*/10000
) AS waiting, (SELECT /*moment*/statement_timestamp() AS moment) AS clock
GROUP BY 1, 2;

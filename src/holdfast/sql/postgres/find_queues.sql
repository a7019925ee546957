-- find_queues: the first job of every lane that has claimable jobs, now or later; /*limit*/1000 lanes at most.
--   Of jobs that go by tenant the first of each queue.
-- params: now timestamptz
-- returns: queue text, type_name text, is_due boolean, waiting_ms bigint
-- concurrency: read only; one index descent per lane, however long the lanes are.
-- locks: none.
WITH RECURSIVE lane AS (
    SELECT 1 AS place, first.* FROM (
        SELECT job.queue, job.priority, job.ready_at, job.type_name
        FROM /*schema.*/job AS job
        WHERE job.status = 'pending' AND NOT job.held AND job.crash_count = 0 AND NOT job.is_fair
        ORDER BY job.queue, job.priority, job.ready_at, job.seq
        LIMIT 1
    ) AS first
    UNION ALL
    SELECT lane.place + 1, next.* FROM lane CROSS JOIN LATERAL (
        SELECT job.queue, job.priority, job.ready_at, job.type_name
        FROM /*schema.*/job AS job
        WHERE job.status = 'pending' AND NOT job.held AND job.crash_count = 0 AND NOT job.is_fair
          AND (job.queue, job.priority) > (lane.queue, lane.priority)
        ORDER BY job.queue, job.priority, job.ready_at, job.seq
        LIMIT 1
    ) AS next
    WHERE lane.place < /*limit*/1000
),
fair AS (
    SELECT 1 AS place, first.* FROM (
        SELECT job.queue, job.ready_at, job.type_name
        FROM /*schema.*/job AS job
        WHERE job.status = 'pending' AND NOT job.held AND job.crash_count = 0 AND job.is_fair AND job.seq > 0
        ORDER BY job.queue, job.ready_at, job.seq
        LIMIT 1
    ) AS first
    UNION ALL
    SELECT fair.place + 1, next.* FROM fair CROSS JOIN LATERAL (
        SELECT job.queue, job.ready_at, job.type_name
        FROM /*schema.*/job AS job
        WHERE job.status = 'pending' AND NOT job.held AND job.crash_count = 0 AND job.is_fair AND job.seq > 0
          AND job.queue > fair.queue
        ORDER BY job.queue, job.ready_at, job.seq
        LIMIT 1
    ) AS next
    WHERE fair.place < /*limit*/1000
)
SELECT queue, type_name, ready_at <= moment AS is_due,
       (extract(epoch FROM moment - ready_at) * 1000)::bigint AS waiting_ms
FROM (SELECT queue, type_name, ready_at FROM lane UNION ALL SELECT queue, type_name, ready_at FROM fair) AS found,
     (SELECT /*moment*/statement_timestamp() AS moment) AS clock;

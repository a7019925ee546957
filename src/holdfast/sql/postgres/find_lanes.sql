-- find_lanes: the (queue, priority) pairs that have claimable jobs, now or later, each with its first job.
-- params: now timestamptz, queues json
-- returns: queue text, priority smallint, ready_at timestamptz, seq bigint, due_in_ms bigint, is_suspect boolean
-- concurrency: read only; one index descent per lane, however long the lanes are.
--   What should have been started by now and was not is not claimable.
-- locks: none.
WITH RECURSIVE asked AS MATERIALIZED (
    SELECT queue FROM json_array_elements_text(CAST(CAST(:queues AS text) AS json)) AS name (queue)
),
lane AS (
    SELECT first.* FROM asked CROSS JOIN LATERAL (
        SELECT job.queue, job.priority, job.ready_at, job.seq
        FROM /*schema.*/job AS job
        WHERE job.status = 'pending' AND NOT job.held AND job.crash_count = 0 AND job.queue = asked.queue
          AND (job.expires_at IS NULL OR job.attempt > 0 OR job.expires_at > coalesce(CAST(:now AS timestamptz), statement_timestamp()))
        ORDER BY job.priority, job.ready_at, job.seq
        LIMIT 1
    ) AS first
    UNION ALL
    SELECT next.* FROM lane CROSS JOIN LATERAL (
        SELECT job.queue, job.priority, job.ready_at, job.seq
        FROM /*schema.*/job AS job
        WHERE job.status = 'pending' AND NOT job.held AND job.crash_count = 0
          AND job.queue = lane.queue AND job.priority > lane.priority
          AND (job.expires_at IS NULL OR job.attempt > 0 OR job.expires_at > coalesce(CAST(:now AS timestamptz), statement_timestamp()))
        ORDER BY job.priority, job.ready_at, job.seq
        LIMIT 1
    ) AS next
),
suspect AS (
    SELECT first.* FROM asked CROSS JOIN LATERAL (
        SELECT job.queue, job.priority, job.ready_at, job.seq
        FROM /*schema.*/job AS job
        WHERE job.status = 'pending' AND NOT job.held AND job.crash_count > 0 AND job.queue = asked.queue
          AND (job.expires_at IS NULL OR job.attempt > 0 OR job.expires_at > coalesce(CAST(:now AS timestamptz), statement_timestamp()))
        ORDER BY job.ready_at, job.seq
        LIMIT 1
    ) AS first
)
SELECT queue, priority, ready_at, seq,
       greatest(0, ceil(extract(epoch FROM
           ready_at - coalesce(CAST(:now AS timestamptz), statement_timestamp())) * 1000))::bigint AS due_in_ms,
       is_suspect
FROM (SELECT *, false AS is_suspect FROM lane UNION ALL SELECT *, true FROM suspect) AS found
ORDER BY priority, ready_at, seq;

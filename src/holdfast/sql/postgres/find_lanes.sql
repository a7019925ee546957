-- find_lanes: the (queue, priority) pairs that have claimable jobs, now or later, each with its first job.
-- params: now timestamptz, queues json, taste json
-- returns: queue text, priority smallint, ready_at timestamptz, seq bigint, due_in_ms bigint, is_suspect boolean, is_fair boolean
-- prepared: yes (planning it takes longer than looking, and a job that comes meanwhile waits for both)
-- concurrency: read only; one index descent per lane, however long the lanes are.
--   What should have been started by now and was not is not claimable, nor what is not to the worker's taste (see claim_jobs). What a pause keeps is due when that ends, and
--   is not found if nobody said when. Of jobs that go by tenant the first of each queue is told, whosever it is: see find_tenants.
-- locks: none.
WITH RECURSIVE asked AS MATERIALIZED (
    SELECT name.queue, paused.resume_at, taste.forbidden, taste.mask
    FROM json_array_elements_text(CAST(CAST(:queues AS text) AS json)) AS name (queue)
    CROSS JOIN LATERAL (
        SELECT ARRAY(SELECT json_array_elements_text(CAST(CAST(:taste AS text) AS json) -> 'forbidden')) AS forbidden,
               CAST(CAST(:taste AS text) AS json) -> 'masks' ->> name.queue AS mask
    ) AS taste
    LEFT JOIN /*schema.*/queue AS paused ON paused.name = name.queue AND paused.paused_at IS NOT NULL
    WHERE paused.name IS NULL OR paused.resume_at IS NOT NULL
),
lane AS (
    SELECT first.*, asked.resume_at, asked.forbidden, asked.mask FROM asked CROSS JOIN LATERAL (
        SELECT job.queue, job.priority, job.ready_at, job.seq
        FROM /*schema.*/job AS job
        WHERE job.status = 'pending' AND NOT job.held AND job.crash_count = 0 AND NOT job.is_fair AND job.queue = asked.queue
          AND (job.expires_at IS NULL OR job.attempt > 0 OR job.expires_at > /*moment*/statement_timestamp())
          AND /*taste*/job
        ORDER BY job.priority, job.ready_at, job.seq
        LIMIT 1
    ) AS first
    UNION ALL
    SELECT next.*, lane.resume_at, lane.forbidden, lane.mask FROM lane CROSS JOIN LATERAL (
        SELECT job.queue, job.priority, job.ready_at, job.seq
        FROM /*schema.*/job AS job
        WHERE job.status = 'pending' AND NOT job.held AND job.crash_count = 0 AND NOT job.is_fair
          AND job.queue = lane.queue AND job.priority > lane.priority
          AND (job.expires_at IS NULL OR job.attempt > 0 OR job.expires_at > /*moment*/statement_timestamp())
          AND /*taste*/job
        ORDER BY job.priority, job.ready_at, job.seq
        LIMIT 1
    ) AS next
),
suspect AS (
    SELECT first.*, asked.resume_at, asked.forbidden, asked.mask FROM asked CROSS JOIN LATERAL (
        SELECT job.queue, job.priority, job.ready_at, job.seq
        FROM /*schema.*/job AS job
        WHERE job.status = 'pending' AND NOT job.held AND job.crash_count > 0 AND job.queue = asked.queue
          AND (job.expires_at IS NULL OR job.attempt > 0 OR job.expires_at > /*moment*/statement_timestamp())
          AND /*taste*/job
        ORDER BY job.ready_at, job.seq
        LIMIT 1
    ) AS first
),
fair AS (
    SELECT first.*, asked.resume_at, asked.forbidden, asked.mask FROM asked CROSS JOIN LATERAL (
        SELECT job.queue, job.priority, job.ready_at, job.seq
        FROM /*schema.*/job AS job
        WHERE job.status = 'pending' AND NOT job.held AND job.crash_count = 0 AND job.is_fair AND job.seq > 0 AND job.queue = asked.queue
          AND (job.expires_at IS NULL OR job.attempt > 0 OR job.expires_at > /*moment*/statement_timestamp())
          AND /*taste*/job
        ORDER BY job.ready_at, job.seq
        LIMIT 1
    ) AS first
)
SELECT queue, priority, ready_at, seq,
       greatest(0, ceil(extract(epoch FROM
           greatest(ready_at, resume_at) - /*moment*/statement_timestamp()) * 1000))::bigint AS due_in_ms,
       is_suspect, is_fair
FROM (
    SELECT *, false AS is_suspect, false AS is_fair FROM lane
    UNION ALL SELECT *, true, false FROM suspect
    UNION ALL SELECT *, false, true FROM fair
) AS found
ORDER BY priority, ready_at, seq;

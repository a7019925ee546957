-- find_tenants: the next tenants of a queue that have jobs that go by tenant, /*limit*/32 at most, each with the first job of
--   each of its priorities.
-- params: now timestamptz, queue text, after text, taste json
-- returns: place integer, tenant text, priority smallint, ready_at timestamptz, seq bigint, due_in_ms bigint
--   (priority and what follows is null of a tenant that has nothing to claim)
-- concurrency: read only; the walk begins behind the tenant given, goes on from the beginning and ends where it began: two index
--   descents per tenant and one per priority, however many tenants and jobs there are.
-- locks: none.
WITH RECURSIVE asked AS MATERIALIZED (
    SELECT ARRAY(SELECT json_array_elements_text(CAST(CAST(:taste AS text) AS json) -> 'forbidden')) AS forbidden,
           CAST(CAST(:taste AS text) AS json) -> 'masks' ->> CAST(:queue AS text) AS mask
),
walk AS (
    SELECT 0 AS place, CAST(:after AS text) AS tenant, false AS is_round
    UNION ALL
    SELECT walk.place + 1, next.tenant, walk.is_round OR next.is_round
    FROM walk CROSS JOIN LATERAL (
        (SELECT job.tenant, false AS is_round
         FROM /*schema.*/job AS job
         WHERE job.status = 'pending' AND NOT job.held AND job.crash_count = 0 AND job.is_fair
           AND job.queue = CAST(:queue AS text) AND job.tenant > walk.tenant
           AND (NOT walk.is_round OR job.tenant <= CAST(:after AS text))
         ORDER BY job.tenant, job.priority, job.ready_at, job.seq
         LIMIT 1)
        UNION ALL
        (SELECT job.tenant, true
         FROM /*schema.*/job AS job
         WHERE NOT walk.is_round AND job.status = 'pending' AND NOT job.held AND job.crash_count = 0 AND job.is_fair
           AND job.queue = CAST(:queue AS text) AND job.tenant <= CAST(:after AS text)
         ORDER BY job.tenant, job.priority, job.ready_at, job.seq
         LIMIT 1)
        LIMIT 1
    ) AS next
    WHERE walk.place < /*limit*/32
),
lane AS (
    SELECT walk.place, walk.tenant, first.* FROM walk CROSS JOIN asked CROSS JOIN LATERAL (
        SELECT job.priority, job.ready_at, job.seq
        FROM /*schema.*/job AS job
        WHERE job.status = 'pending' AND NOT job.held AND job.crash_count = 0 AND job.is_fair
          AND job.queue = CAST(:queue AS text) AND job.tenant = walk.tenant
          AND (job.expires_at IS NULL OR job.attempt > 0 OR job.expires_at > /*moment*/statement_timestamp())
          AND /*taste*/job
        ORDER BY job.priority, job.ready_at, job.seq
        LIMIT 1
    ) AS first
    WHERE walk.place > 0
    UNION ALL
    SELECT lane.place, lane.tenant, next.* FROM lane CROSS JOIN asked CROSS JOIN LATERAL (
        SELECT job.priority, job.ready_at, job.seq
        FROM /*schema.*/job AS job
        WHERE job.status = 'pending' AND NOT job.held AND job.crash_count = 0 AND job.is_fair
          AND job.queue = CAST(:queue AS text) AND job.tenant = lane.tenant AND job.priority > lane.priority
          AND (job.expires_at IS NULL OR job.attempt > 0 OR job.expires_at > /*moment*/statement_timestamp())
          AND /*taste*/job
        ORDER BY job.priority, job.ready_at, job.seq
        LIMIT 1
    ) AS next
)
SELECT walk.place, walk.tenant, lane.priority, lane.ready_at, lane.seq,
       CASE WHEN lane.seq IS NOT NULL THEN greatest(0, ceil(extract(epoch FROM
           lane.ready_at - /*moment*/statement_timestamp()) * 1000))::bigint END AS due_in_ms
FROM walk LEFT JOIN lane ON lane.place = walk.place
WHERE walk.place > 0
ORDER BY walk.place, lane.priority;

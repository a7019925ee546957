-- find_tenants: the next tenants of a queue that have jobs that go by tenant, /*limit*/32 at most, each with the first job of
--   each of its priorities.
-- params: now timestamptz, queue text, after text, taste json
-- returns: place integer, tenant text, priority smallint, ready_at timestamptz, seq bigint, due_in_ms bigint
--   (priority and what follows is null of a tenant that has nothing to claim)
-- concurrency: read only; the walk begins behind the tenant given, goes on from the beginning and ends where it began: two index
--   descents per tenant and one per priority, however many tenants and jobs there are.
-- locks: none.
WITH RECURSIVE walk (place, tenant, is_round) AS (
    SELECT 0, :after, 0
    UNION ALL
    SELECT walk.place + 1, next.tenant, walk.is_round OR next.tenant <= walk.tenant
    FROM walk CROSS JOIN /*schema.*/job AS next ON next.seq = ifnull((
        SELECT job.seq FROM /*schema.*/job AS job INDEXED BY /*name*/job_fair_idx
        WHERE job.status = 'pending' AND job.held = 0 AND job.crash_count = 0 AND job.is_fair = 1 AND job.queue = :queue
          AND job.tenant > walk.tenant AND (NOT walk.is_round OR job.tenant <= :after)
        ORDER BY job.tenant, job.priority, job.ready_at, job.seq LIMIT 1
    ), iif(walk.is_round, NULL, (
        SELECT job.seq FROM /*schema.*/job AS job INDEXED BY /*name*/job_fair_idx
        WHERE job.status = 'pending' AND job.held = 0 AND job.crash_count = 0 AND job.is_fair = 1 AND job.queue = :queue
          AND job.tenant <= :after
        ORDER BY job.tenant, job.priority, job.ready_at, job.seq LIMIT 1
    )))
    WHERE walk.place < /*limit*/32
),
lane (place, tenant, priority) AS (
    SELECT walk.place, walk.tenant, (
        SELECT job.priority FROM /*schema.*/job AS job INDEXED BY /*name*/job_fair_idx
        WHERE job.status = 'pending' AND job.held = 0 AND job.crash_count = 0 AND job.is_fair = 1 AND job.queue = :queue
          AND job.tenant = walk.tenant
          AND (job.expires_at IS NULL OR job.attempt > 0 OR job.expires_at > :now)
          AND /*taste*/job
        ORDER BY job.priority, job.ready_at, job.seq LIMIT 1
    )
    FROM walk WHERE walk.place > 0
    UNION ALL
    SELECT lane.place, lane.tenant, (
        SELECT job.priority FROM /*schema.*/job AS job INDEXED BY /*name*/job_fair_idx
        WHERE job.status = 'pending' AND job.held = 0 AND job.crash_count = 0 AND job.is_fair = 1 AND job.queue = :queue
          AND job.tenant = lane.tenant AND job.priority > lane.priority
          AND (job.expires_at IS NULL OR job.attempt > 0 OR job.expires_at > :now)
          AND /*taste*/job
        ORDER BY job.priority, job.ready_at, job.seq LIMIT 1
    )
    FROM lane WHERE lane.priority IS NOT NULL
),
first (place, seq) AS (
    SELECT lane.place, (
        SELECT job.seq FROM /*schema.*/job AS job INDEXED BY /*name*/job_fair_idx
        WHERE job.status = 'pending' AND job.held = 0 AND job.crash_count = 0 AND job.is_fair = 1 AND job.queue = :queue
          AND job.tenant = lane.tenant AND job.priority = lane.priority
          AND (job.expires_at IS NULL OR job.attempt > 0 OR job.expires_at > :now)
          AND /*taste*/job
        ORDER BY job.ready_at, job.seq LIMIT 1
    )
    FROM lane WHERE lane.priority IS NOT NULL
)
SELECT walk.place, walk.tenant, job.priority, job.ready_at, job.seq,
       max(0, ((strftime('%s', substr(job.ready_at, 1, 19)) - strftime('%s', substr(:now, 1, 19))) * 1000000
               + substr(job.ready_at, 21, 6) - substr(:now, 21, 6) + 999) / 1000) AS due_in_ms
FROM walk LEFT JOIN first ON first.place = walk.place LEFT JOIN /*schema.*/job AS job ON job.seq = first.seq
WHERE walk.place > 0
ORDER BY walk.place, job.priority;

-- find_queues: the first job of every lane that has claimable jobs, now or later; /*limit*/1000 lanes at most.
--   Of jobs that go by tenant the first of each queue.
-- params: now timestamptz
-- returns: queue text, type_name text, is_due boolean, waiting_ms bigint
-- concurrency: read only; two index descents per lane, however long the lanes are.
-- locks: none.
WITH RECURSIVE lane (place, seq) AS (
    SELECT 1, (
        SELECT job.seq FROM /*schema.*/job AS job INDEXED BY /*name*/job_claim_idx
        WHERE job.status = 'pending' AND job.held = 0 AND job.crash_count = 0 AND job.is_fair = 0
        ORDER BY job.queue, job.priority, job.ready_at, job.seq LIMIT 1
    )
    UNION ALL
    SELECT lane.place + 1, ifnull((
        SELECT job.seq FROM /*schema.*/job AS job INDEXED BY /*name*/job_claim_idx
        WHERE job.status = 'pending' AND job.held = 0 AND job.crash_count = 0 AND job.is_fair = 0
          AND job.queue = last.queue AND job.priority > last.priority
        ORDER BY job.priority, job.ready_at, job.seq LIMIT 1
    ), (
        SELECT job.seq FROM /*schema.*/job AS job INDEXED BY /*name*/job_claim_idx
        WHERE job.status = 'pending' AND job.held = 0 AND job.crash_count = 0 AND job.is_fair = 0 AND job.queue > last.queue
        ORDER BY job.queue, job.priority, job.ready_at, job.seq LIMIT 1
    ))
    FROM lane CROSS JOIN /*schema.*/job AS last ON last.seq = lane.seq
    WHERE lane.place < /*limit*/1000
),
fair (place, seq) AS (
    SELECT 1, (
        SELECT job.seq FROM /*schema.*/job AS job INDEXED BY /*name*/job_fair_due_idx
        WHERE job.status = 'pending' AND job.held = 0 AND job.crash_count = 0 AND job.is_fair = 1
        ORDER BY job.queue, job.ready_at, job.seq LIMIT 1
    )
    UNION ALL
    SELECT fair.place + 1, (
        SELECT job.seq FROM /*schema.*/job AS job INDEXED BY /*name*/job_fair_due_idx
        WHERE job.status = 'pending' AND job.held = 0 AND job.crash_count = 0 AND job.is_fair = 1 AND job.queue > last.queue
        ORDER BY job.queue, job.ready_at, job.seq LIMIT 1
    )
    FROM fair CROSS JOIN /*schema.*/job AS last ON last.seq = fair.seq
    WHERE fair.place < /*limit*/1000
)
SELECT job.queue, job.type_name, job.ready_at <= :now AS is_due,
       CAST(round((julianday(:now) - julianday(job.ready_at)) * 86400000) AS INTEGER) AS waiting_ms
FROM (SELECT seq FROM lane UNION ALL SELECT seq FROM fair) AS found CROSS JOIN /*schema.*/job AS job ON job.seq = found.seq;

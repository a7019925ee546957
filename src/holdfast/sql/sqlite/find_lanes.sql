-- find_lanes: the (queue, priority) pairs that have claimable jobs, now or later, each with its first job.
-- params: now timestamptz, queues json
-- returns: queue text, priority smallint, ready_at timestamptz, seq bigint, due_in_ms bigint, is_suspect boolean
-- concurrency: read only; one index descent per lane, however long the lanes are. What should have been
--   started by now and was not is not claimable. SQLite's own dates have milliseconds
--   only; the time until a job is due is counted in microseconds and rounded up, so that it is zero only when it is due.
-- locks: none.
WITH RECURSIVE lane (queue, priority) AS (
    SELECT value, (
        SELECT priority FROM /*schema.*/job AS job
        WHERE status = 'pending' AND held = 0 AND crash_count = 0 AND queue = value
          AND (expires_at IS NULL OR attempt > 0 OR expires_at > :now)
        ORDER BY priority LIMIT 1
    )
    FROM json_each(:queues)
    UNION ALL
    SELECT lane.queue, (
        SELECT priority FROM /*schema.*/job AS job
        WHERE status = 'pending' AND held = 0 AND crash_count = 0
          AND queue = lane.queue AND priority > lane.priority
          AND (expires_at IS NULL OR attempt > 0 OR expires_at > :now)
        ORDER BY priority LIMIT 1
    )
    FROM lane WHERE lane.priority IS NOT NULL
),
first (seq, is_suspect) AS (
    SELECT (
        SELECT seq FROM /*schema.*/job AS job
        WHERE status = 'pending' AND held = 0 AND crash_count = 0
          AND queue = lane.queue AND priority = lane.priority
          AND (expires_at IS NULL OR attempt > 0 OR expires_at > :now)
        ORDER BY ready_at, seq LIMIT 1
    ), 0
    FROM lane WHERE lane.priority IS NOT NULL
    UNION ALL
    SELECT (
        SELECT seq FROM /*schema.*/job AS job
        WHERE status = 'pending' AND held = 0 AND crash_count > 0 AND queue = value
          AND (expires_at IS NULL OR attempt > 0 OR expires_at > :now)
        ORDER BY ready_at, seq LIMIT 1
    ), 1
    FROM json_each(:queues)
)
SELECT job.queue, job.priority, job.ready_at, job.seq,
       max(0, ((strftime('%s', substr(job.ready_at, 1, 19)) - strftime('%s', substr(:now, 1, 19))) * 1000000
               + substr(job.ready_at, 21, 6) - substr(:now, 21, 6) + 999) / 1000) AS due_in_ms,
       first.is_suspect
FROM first CROSS JOIN /*schema.*/job AS job ON job.seq = first.seq
ORDER BY job.priority, job.ready_at, job.seq;

-- find_lanes: the (queue, priority) pairs that have claimable jobs, now or later, each with its first job.
-- params: now timestamptz, queues json, taste json
-- returns: queue text, priority smallint, ready_at timestamptz, seq bigint, due_in_ms bigint, is_suspect boolean, is_fair boolean
-- concurrency: read only; one index descent per lane, however long the lanes are. What should have been
--   started by now and was not is not claimable, nor what is not to the worker's taste (see claim_jobs). What a pause keeps is due when that ends, and is not found if nobody said
--   when. Of jobs that go by tenant the first of each queue is told, whosever it is: see find_tenants. SQLite's own dates have milliseconds only; the time until a job is due is counted in microseconds and rounded up, so that it is zero only when it is due.
-- locks: none.
WITH RECURSIVE asked (queue, resume_at) AS (
    SELECT value, ifnull(resume_at, '')
    FROM json_each(:queues) LEFT JOIN /*schema.*/queue AS paused ON paused.name = value AND paused.paused_at IS NOT NULL
    WHERE paused.name IS NULL OR paused.resume_at IS NOT NULL
),
lane (queue, resume_at, priority) AS (
    SELECT asked.queue, asked.resume_at, (
        SELECT priority FROM /*schema.*/job AS job
        WHERE status = 'pending' AND held = 0 AND crash_count = 0 AND is_fair = 0 AND queue = asked.queue
          AND (expires_at IS NULL OR attempt > 0 OR expires_at > :now)
          AND /*taste*/job
        ORDER BY priority LIMIT 1
    )
    FROM asked
    UNION ALL
    SELECT lane.queue, lane.resume_at, (
        SELECT priority FROM /*schema.*/job AS job
        WHERE status = 'pending' AND held = 0 AND crash_count = 0 AND is_fair = 0
          AND queue = lane.queue AND priority > lane.priority
          AND (expires_at IS NULL OR attempt > 0 OR expires_at > :now)
          AND /*taste*/job
        ORDER BY priority LIMIT 1
    )
    FROM lane WHERE lane.priority IS NOT NULL
),
first (resume_at, seq, is_suspect, is_fair) AS (
    SELECT lane.resume_at, (
        SELECT seq FROM /*schema.*/job AS job
        WHERE status = 'pending' AND held = 0 AND crash_count = 0 AND is_fair = 0
          AND queue = lane.queue AND priority = lane.priority
          AND (expires_at IS NULL OR attempt > 0 OR expires_at > :now)
          AND /*taste*/job
        ORDER BY ready_at, seq LIMIT 1
    ), 0, 0
    FROM lane WHERE lane.priority IS NOT NULL
    UNION ALL
    SELECT asked.resume_at, (
        SELECT seq FROM /*schema.*/job AS job
        WHERE status = 'pending' AND held = 0 AND crash_count > 0 AND queue = asked.queue
          AND (expires_at IS NULL OR attempt > 0 OR expires_at > :now)
          AND /*taste*/job
        ORDER BY ready_at, seq LIMIT 1
    ), 1, 0
    FROM asked
    UNION ALL
    SELECT asked.resume_at, (
        SELECT seq FROM /*schema.*/job AS job INDEXED BY /*name*/job_fair_due_idx
        WHERE status = 'pending' AND held = 0 AND crash_count = 0 AND is_fair = 1 AND queue = asked.queue
          AND (expires_at IS NULL OR attempt > 0 OR expires_at > :now)
          AND /*taste*/job
        ORDER BY ready_at, seq LIMIT 1
    ), 0, 1
    FROM asked
)
SELECT job.queue, job.priority, job.ready_at, job.seq,
       max(0, ((strftime('%s', substr(max(job.ready_at, first.resume_at), 1, 19)) - strftime('%s', substr(:now, 1, 19))) * 1000000
               + substr(max(job.ready_at, first.resume_at), 21, 6) - substr(:now, 21, 6) + 999) / 1000) AS due_in_ms,
       first.is_suspect, first.is_fair
FROM first CROSS JOIN /*schema.*/job AS job ON job.seq = first.seq
ORDER BY job.priority, job.ready_at, job.seq;

-- find_limited: a page of concurrency keys of which jobs wait for limits, and how many of these there is room for.
-- params: now timestamptz, after_queue text, after_key text
-- returns: queue text, concurrency_key text, places bigint
-- concurrency: read only; one descent per key, however many jobs wait, and a count of what runs. Where a rate keeps them it
--   is enough to have one put back, unless one is due by then: who claims that one sees to the others. What a pause keeps
--   stays where it is.
-- locks: none.
WITH RECURSIVE key (queue, concurrency_key) AS (
    SELECT * FROM (
        SELECT queue, concurrency_key FROM /*schema.*/job AS job INDEXED BY /*name*/job_limited_idx
        WHERE status = 'pending' AND limited = 1
          AND (queue, concurrency_key) > (ifnull(:after_queue, ''), ifnull(:after_key, ''))
        ORDER BY queue, concurrency_key LIMIT 1
    )
    UNION ALL
    SELECT job.queue, job.concurrency_key
    -- Twice one descent. Compared as a pair, SQLite begins with all that wait in this very key, or in this very queue.
    FROM key CROSS JOIN /*schema.*/job AS job ON job.seq = coalesce(
        (
            SELECT seq FROM /*schema.*/job AS next INDEXED BY /*name*/job_limited_idx
            WHERE next.status = 'pending' AND next.limited = 1
              AND next.queue = key.queue AND next.concurrency_key > key.concurrency_key
            ORDER BY next.concurrency_key LIMIT 1
        ),
        (
            SELECT seq FROM /*schema.*/job AS next INDEXED BY /*name*/job_limited_idx
            WHERE next.status = 'pending' AND next.limited = 1
              AND next.queue > key.queue
            ORDER BY next.queue, next.concurrency_key LIMIT 1
        )
    )
    LIMIT /*limit*/100
)
SELECT key.queue, key.concurrency_key, CASE
    WHEN known.paused_at IS NOT NULL AND (known.resume_at IS NULL OR known.resume_at > :now) THEN 0
    WHEN known.key_rate IS NOT NULL AND state.due_at > /*microseconds*/now()
         AND state.due_at <= /*microseconds*/now()
                             + 1000000 / known.key_rate + 1000 THEN 0
    ELSE min(
        ifnull(max(0, known.key_concurrency - (
            SELECT count(*) FROM /*schema.*/job AS runner
            WHERE runner.queue = key.queue AND runner.concurrency_key = key.concurrency_key AND runner.status = 'running'
        )), 1000),
        iif(known.key_rate IS NULL, 1000, 1)
    )
END AS places
FROM key
LEFT JOIN /*schema.*/queue AS known ON known.name = key.queue
LEFT JOIN /*schema.*/limited_key AS state ON state.queue = key.queue AND state.concurrency_key = key.concurrency_key;

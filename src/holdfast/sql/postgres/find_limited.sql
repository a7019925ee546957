-- find_limited: a page of concurrency keys of which jobs wait for limits, and how many of these there is room for.
-- params: now timestamptz, after_queue text, after_key text
-- returns: queue text, concurrency_key text, places bigint
-- concurrency: read only; one descent per key, however many jobs wait, and a count of what runs. Where a rate keeps them it
--   is enough to have one put back, unless one is due by then: who claims that one sees to the others. What a pause keeps
--   stays where it is.
-- locks: none.
WITH RECURSIVE key AS (
    (
        SELECT job.queue, job.concurrency_key FROM /*schema.*/job AS job
        WHERE job.status = 'pending' AND job.limited
          AND (job.queue, job.concurrency_key) > (coalesce(CAST(:after_queue AS text), ''), coalesce(CAST(:after_key AS text), ''))
        ORDER BY job.queue, job.concurrency_key LIMIT 1
    )
    UNION ALL
    SELECT next.queue, next.concurrency_key
    FROM key CROSS JOIN LATERAL (
        SELECT job.queue, job.concurrency_key FROM /*schema.*/job AS job
        WHERE job.status = 'pending' AND job.limited AND (job.queue, job.concurrency_key) > (key.queue, key.concurrency_key)
        ORDER BY job.queue, job.concurrency_key LIMIT 1
    ) AS next
)
SELECT page.queue, page.concurrency_key, CASE
    WHEN known.paused_at IS NOT NULL
         AND (known.resume_at IS NULL OR known.resume_at > /*moment*/statement_timestamp()) THEN 0
    WHEN state.due_at > /*moment*/statement_timestamp()
         AND state.due_at <= /*moment*/statement_timestamp()
                             + interval '1 second' / known.key_rate + interval '1 millisecond' THEN 0
    ELSE greatest(0, least(known.key_concurrency - running.jobs, 1000, CASE WHEN known.key_rate IS NOT NULL THEN 1 END))
END AS places
FROM (SELECT queue, concurrency_key FROM key LIMIT /*limit*/100) AS page
LEFT JOIN /*schema.*/queue AS known ON known.name = page.queue
LEFT JOIN /*schema.*/limited_key AS state
    ON known.key_rate IS NOT NULL AND state.queue = page.queue AND state.concurrency_key = page.concurrency_key
LEFT JOIN LATERAL (
    SELECT count(*) AS jobs FROM (
        SELECT FROM /*schema.*/job AS job
        WHERE job.queue = page.queue AND job.concurrency_key = page.concurrency_key AND job.status = 'running'
        LIMIT known.key_concurrency
    ) AS runner
) AS running ON known.key_concurrency IS NOT NULL;

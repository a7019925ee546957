-- find_unsettled: a page of jobs that wait, and which of their blockers have ended without their being told.
-- params: after_job text, after_index smallint
-- returns: job_id text, place smallint, chain_id text, is_over boolean, waiting_chain_id text (the job's own chain, where
--   both it and what it waits for are blocked)
-- concurrency: read only. What is found may have been settled meanwhile; settling again changes nothing.
-- locks: none.
WITH page AS MATERIALIZED (
    SELECT job_id, index, blocked_by_chain_id
    FROM /*schema.*/job_blocker AS job_blocker
    WHERE NOT is_resolved AND (CAST(:after_job AS text) IS NULL
           OR (job_id, index) > (CAST(CAST(:after_job AS text) AS /*id*/uuid), CAST(:after_index AS smallint)))
    ORDER BY job_id, index
    LIMIT /*limit*/100
)
SELECT page.job_id::text, page.index AS place, page.blocked_by_chain_id::text AS chain_id,
       coalesce(tail.status = 'completed'
                OR (tail.status IN ('dead_letter', 'cancelled') AND job.on_blocker_failure IN ('run', 'cancel')), false)
           AS is_over,
       CASE WHEN job.status = 'blocked' AND tail.status = 'blocked' THEN job.chain_id::text END AS waiting_chain_id
FROM page
JOIN /*schema.*/job AS job ON job.id = page.job_id
LEFT JOIN LATERAL (
    SELECT status FROM /*schema.*/job AS job WHERE job.id = page.blocked_by_chain_id AND job.is_tail
    UNION ALL
    SELECT status FROM /*schema.*/job AS job
    WHERE job.chain_id = page.blocked_by_chain_id AND job.chain_index > 0 AND job.is_tail
) AS tail ON true
ORDER BY page.job_id, page.index;

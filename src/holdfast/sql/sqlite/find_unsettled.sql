-- find_unsettled: a page of jobs that wait, and which of their blockers have ended without their being told.
-- params: after_job text, after_index smallint
-- returns: job_id text, place smallint, chain_id text, is_over boolean, waiting_chain_id text (the job's own chain, where
--   both it and what it waits for are blocked)
-- concurrency: read only. What is found may have been settled meanwhile; settling again changes nothing.
-- locks: none.
SELECT page.job_id, page."index" AS place, page.blocked_by_chain_id AS chain_id,
       ifnull(ifnull(first.status, later.status) = 'completed'
              OR (ifnull(first.status, later.status) IN ('dead_letter', 'cancelled')
                  AND job.on_blocker_failure IN ('run', 'cancel')), 0) AS is_over,
       CASE WHEN job.status = 'blocked' AND ifnull(first.status, later.status) = 'blocked' THEN job.chain_id END
           AS waiting_chain_id
FROM (
    SELECT job_id, "index", blocked_by_chain_id
    FROM /*schema.*/job_blocker AS job_blocker
    WHERE is_resolved = 0 AND (job_id, "index") > (ifnull(:after_job, ''), ifnull(:after_index, 0))
    ORDER BY job_id, "index"
    LIMIT /*limit*/100
) AS page
CROSS JOIN /*schema.*/job AS job ON job.id = page.job_id
LEFT JOIN /*schema.*/job AS first ON first.id = page.blocked_by_chain_id AND first.is_tail
LEFT JOIN /*schema.*/job AS later
    ON later.chain_id = page.blocked_by_chain_id AND later.chain_index > 0 AND later.is_tail
ORDER BY page.job_id, page."index";

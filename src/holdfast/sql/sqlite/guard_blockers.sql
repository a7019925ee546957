-- guard_blockers: the chains that jobs still wait for, kept from being deleted.
-- params: jobs json
-- returns: id text, chain_id text, is_gone boolean, has_failed boolean (a job, a chain that it waits for, whether it does so
--   in vain, and whether that has ended so that the job would be cancelled for it)
-- concurrency: inside a write transaction nobody else deletes.
-- locks: the database's write lock.
SELECT job_blocker.job_id AS id, job_blocker.blocked_by_chain_id AS chain_id,
       NOT EXISTS (SELECT 1 FROM /*schema.*/job AS job WHERE job.id = job_blocker.blocked_by_chain_id) AS is_gone,
       ifnull(waiting.on_blocker_failure = 'cancel'
              AND ifnull(first.status, later.status) IN ('dead_letter', 'cancelled'), 0) AS has_failed
FROM json_each(:jobs) AS sent
CROSS JOIN /*schema.*/job AS waiting ON waiting.id = sent.value
CROSS JOIN /*schema.*/job_blocker AS job_blocker ON job_blocker.job_id = sent.value
LEFT JOIN /*schema.*/job AS first ON first.id = job_blocker.blocked_by_chain_id AND first.is_tail
LEFT JOIN /*schema.*/job AS later
    ON later.chain_id = job_blocker.blocked_by_chain_id AND later.chain_index > 0 AND later.is_tail
WHERE NOT job_blocker.is_resolved;

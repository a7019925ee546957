-- guard_blockers: keep the chains that jobs still wait for from being deleted, and name those that are gone.
-- params: jobs json
-- returns: id text, chain_id text (a job, and a chain that it waits for in vain)
-- concurrency: inside a write transaction nobody else deletes.
-- locks: the database's write lock.
SELECT job_blocker.job_id AS id, job_blocker.blocked_by_chain_id AS chain_id
FROM json_each(:jobs) AS sent
CROSS JOIN /*schema.*/job_blocker AS job_blocker ON job_blocker.job_id = sent.value
WHERE NOT job_blocker.is_resolved
  AND NOT EXISTS (SELECT 1 FROM /*schema.*/job AS job WHERE job.id = job_blocker.blocked_by_chain_id);

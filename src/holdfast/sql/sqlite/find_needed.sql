-- find_needed: which of the chains given somebody needs: a job that waits for them, or read their outputs and may begin anew.
-- params: chains json
-- returns: chain_id text
-- concurrency: read only. In a write transaction nobody can come to need them.
-- locks: none.
SELECT DISTINCT job_blocker.blocked_by_chain_id AS chain_id
FROM json_each(:chains) AS sent
CROSS JOIN /*schema.*/job_blocker AS job_blocker ON job_blocker.blocked_by_chain_id = sent.value
CROSS JOIN /*schema.*/job AS job ON job.id = job_blocker.job_id
WHERE job.status <> 'completed';

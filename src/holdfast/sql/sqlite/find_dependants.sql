-- find_dependants: which jobs wait for chains, or did.
-- params: chains json
-- returns: blocked_by_chain_id text, id text, chain_id text, is_unfinished boolean
-- concurrency: read only.
-- locks: none.
SELECT job_blocker.blocked_by_chain_id AS blocked_by_chain_id, job.id AS id, job.chain_id AS chain_id,
       job.status IN ('blocked', 'pending', 'running') AS is_unfinished
FROM json_each(:chains) AS sent
CROSS JOIN /*schema.*/job_blocker AS job_blocker ON job_blocker.blocked_by_chain_id = sent.value
CROSS JOIN /*schema.*/job AS job ON job.id = job_blocker.job_id;

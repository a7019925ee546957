-- chain_statuses: the state of chains, which is that of their last jobs.
-- params: chains json
-- returns: chain_id text, status text (of those that exist)
-- concurrency: read only.
-- locks: none.
SELECT job.chain_id, job.status
FROM json_each(:chains) CROSS JOIN /*schema.*/job AS job ON job.id = value
WHERE job.chain_index = 0 AND job.is_tail
UNION ALL
SELECT job.chain_id, job.status
FROM json_each(:chains) CROSS JOIN /*schema.*/job AS job ON job.chain_id = value
WHERE job.chain_index > 0 AND job.is_tail;

-- hold_chains: the state of chains that somebody is going to wait for, and a hold on it.
-- params: chains json
-- returns: chain_id text, status text (of those that exist)
-- concurrency: inside a write transaction: nobody else can end them.
-- locks: the database's write lock.
SELECT job.chain_id, job.status
FROM json_each(:chains) CROSS JOIN /*schema.*/job AS job ON job.id = value
WHERE job.chain_index = 0 AND job.is_tail
UNION ALL
SELECT job.chain_id, job.status
FROM json_each(:chains) CROSS JOIN /*schema.*/job AS job ON job.chain_id = value
WHERE job.chain_index > 0 AND job.is_tail;

-- find_blocking_chains: which chains these waited for, which chains those, and so on.
-- params: chains json
-- returns: chain_id text, blocked_by_chain_id text (only what still exists)
-- concurrency: read only. The id of any job names its chain. Resolved or not: the rows stay.
-- locks: none.
WITH RECURSIVE reached (chain_id, blocked_by) AS (
    SELECT NULL, named.chain_id FROM json_each(:chains) CROSS JOIN /*schema.*/job AS named ON named.id = value
    UNION
    SELECT reached.blocked_by, blocker.id
    FROM reached
    CROSS JOIN /*schema.*/job_blocker AS job_blocker ON job_blocker.job_id IN (
        SELECT reached.blocked_by
        UNION ALL
        SELECT job.id FROM /*schema.*/job AS job WHERE job.chain_id = reached.blocked_by AND job.chain_index > 0
    )
    CROSS JOIN /*schema.*/job AS blocker ON blocker.id = job_blocker.blocked_by_chain_id
)
SELECT chain_id, blocked_by AS blocked_by_chain_id FROM reached WHERE chain_id IS NOT NULL;

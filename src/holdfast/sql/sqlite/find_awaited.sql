-- find_awaited: the chains given, the chains that these wait for, and so on.
-- params: chains json
-- returns: chain_id text
-- concurrency: read only; the chains are held by hold_chains, so nobody puts them behind others meanwhile.
-- locks: none.
WITH RECURSIVE reached (chain_id) AS (
    SELECT value FROM json_each(:chains)
    UNION
    SELECT job_blocker.blocked_by_chain_id
    FROM reached
    JOIN /*schema.*/job AS job ON job.id = reached.chain_id OR (job.chain_id = reached.chain_id AND job.chain_index > 0)
    JOIN /*schema.*/job_blocker AS job_blocker ON job_blocker.job_id = job.id
    WHERE job.status = 'blocked' AND NOT job_blocker.is_resolved
)
SELECT reached.chain_id FROM reached;

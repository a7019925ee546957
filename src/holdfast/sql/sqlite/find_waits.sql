-- find_waits: who waits for whom, from the chains given along what these wait for.
-- params: chains json
-- returns: chain_id text, job_id text, blocked_by_chain_id text (a chain, its blocked job, and a chain that this waits for)
-- concurrency: read only, nearest first; the limit ends the walk.
-- locks: none.
WITH RECURSIVE reached (chain_id, job_id, blocked_by_chain_id) AS (
    SELECT NULL, NULL, value FROM json_each(:chains)
    UNION
    SELECT reached.blocked_by_chain_id, job.id, job_blocker.blocked_by_chain_id
    FROM reached
    CROSS JOIN /*schema.*/job AS job
        ON job.id = reached.blocked_by_chain_id
           OR (job.chain_id = reached.blocked_by_chain_id AND job.chain_index > 0)
    CROSS JOIN /*schema.*/job_blocker AS job_blocker ON job_blocker.job_id = job.id
    WHERE job.status = 'blocked' AND NOT job_blocker.is_resolved
    LIMIT /*limit*/100
)
SELECT chain_id, job_id, blocked_by_chain_id FROM reached WHERE chain_id IS NOT NULL;

-- find_awaited: the chains given, the chains that these wait for, and so on.
-- params: chains json
-- returns: chain_id text
-- concurrency: read only; the chains are held by hold_chains, so nobody puts them behind others meanwhile.
-- locks: none.
WITH RECURSIVE reached (chain_id) AS (
    SELECT CAST(id AS /*id*/uuid) FROM json_array_elements_text(CAST(CAST(:chains AS text) AS json)) AS chain (id)
    UNION
    SELECT job_blocker.blocked_by_chain_id
    FROM reached
    CROSS JOIN LATERAL (
        SELECT id FROM /*schema.*/job AS job WHERE job.id = reached.chain_id AND job.status = 'blocked'
        UNION ALL
        SELECT id FROM /*schema.*/job AS job
        WHERE job.chain_id = reached.chain_id AND job.chain_index > 0 AND job.status = 'blocked'
    ) AS waiting
    JOIN /*schema.*/job_blocker AS job_blocker ON job_blocker.job_id = waiting.id
    WHERE NOT job_blocker.is_resolved
)
SELECT reached.chain_id::text FROM reached;

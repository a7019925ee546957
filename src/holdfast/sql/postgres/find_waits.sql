-- find_waits: who waits for whom, from the chains given along what these wait for.
-- params: chains json
-- returns: chain_id text, job_id text, blocked_by_chain_id text (a chain, its blocked job, and a chain that this waits for)
-- concurrency: read only, nearest first; the limit ends the walk.
--   The state is in a CASE to keep the planner off the index of certain states, which it would read as a whole.
-- locks: none.
WITH RECURSIVE reached (chain_id, job_id, blocked_by_chain_id) AS (
    SELECT NULL::/*id*/uuid, NULL::/*id*/uuid, CAST(id AS /*id*/uuid)
    FROM json_array_elements_text(CAST(CAST(:chains AS text) AS json)) AS chain (id)
    UNION
    SELECT reached.blocked_by_chain_id, waiting.id, job_blocker.blocked_by_chain_id
    FROM reached
    CROSS JOIN LATERAL (
        SELECT id FROM /*schema.*/job AS job
        WHERE job.id = reached.blocked_by_chain_id AND CASE WHEN job.status = 'blocked' THEN true END
        UNION ALL
        SELECT id FROM /*schema.*/job AS job
        WHERE job.chain_id = reached.blocked_by_chain_id AND job.chain_index > 0
          AND CASE WHEN job.status = 'blocked' THEN true END
    ) AS waiting
    JOIN /*schema.*/job_blocker AS job_blocker ON job_blocker.job_id = waiting.id
    WHERE NOT job_blocker.is_resolved
)
SELECT chain_id::text, job_id::text, blocked_by_chain_id::text
FROM reached WHERE chain_id IS NOT NULL
LIMIT /*limit*/100;

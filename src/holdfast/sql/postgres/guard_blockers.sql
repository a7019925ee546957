-- guard_blockers: keep the chains that jobs still wait for from being deleted, and name those that are gone.
-- params: jobs json
-- returns: id text, chain_id text (a job, and a chain that it waits for in vain)
-- concurrency: a deletion locks FOR UPDATE, which KEY SHARE waits for; whoever comes second sees what the first has done.
--   Nobody else is held up.
-- locks: first jobs of the chains, by id.
WITH needed AS MATERIALIZED (
    SELECT job_id, blocked_by_chain_id FROM /*schema.*/job_blocker AS job_blocker
    WHERE NOT is_resolved AND job_id = ANY (ARRAY(
        SELECT CAST(id AS /*id*/uuid) FROM json_array_elements_text(CAST(CAST(:jobs AS text) AS json)) AS sent (id)
    ))
),
standing AS MATERIALIZED (
    SELECT id FROM /*schema.*/job AS job
    WHERE id = ANY (ARRAY(SELECT blocked_by_chain_id FROM needed))
    ORDER BY id
    FOR KEY SHARE
)
SELECT job_id::text AS id, blocked_by_chain_id::text AS chain_id
FROM needed
WHERE blocked_by_chain_id NOT IN (SELECT id FROM standing);

-- guard_blockers: the chains that jobs still wait for, kept from being deleted.
-- params: jobs json
-- returns: id text, chain_id text, is_gone boolean, has_failed boolean (a job, a chain that it waits for, whether it does so
--   in vain, and whether that has ended so that the job would be cancelled for it)
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
SELECT job_id::text AS id, blocked_by_chain_id::text AS chain_id,
       blocked_by_chain_id NOT IN (SELECT id FROM standing) AS is_gone,
       coalesce(waiting.on_blocker_failure = 'cancel' AND tail.status IN ('dead_letter', 'cancelled'), false) AS has_failed
FROM needed
JOIN /*schema.*/job AS waiting ON waiting.id = needed.job_id
LEFT JOIN LATERAL (
    SELECT status FROM /*schema.*/job AS job WHERE job.id = needed.blocked_by_chain_id AND job.is_tail
    UNION ALL
    SELECT status FROM /*schema.*/job AS job
    WHERE job.chain_id = needed.blocked_by_chain_id AND job.chain_index > 0 AND job.is_tail
) AS tail ON true;

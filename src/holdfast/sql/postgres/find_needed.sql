-- find_needed: which of the chains given somebody needs: a job that waits for them, or read their outputs and may begin anew.
-- params: chains json
-- returns: chain_id text
-- concurrency: read only. With the chains' jobs locked (lock_chains) nobody can come to need them.
-- locks: none.
SELECT DISTINCT job_blocker.blocked_by_chain_id::text AS chain_id
FROM /*schema.*/job_blocker AS job_blocker
JOIN /*schema.*/job AS job ON job.id = job_blocker.job_id
WHERE job_blocker.blocked_by_chain_id = ANY (ARRAY(
    SELECT CAST(id AS /*id*/uuid) FROM json_array_elements_text(CAST(CAST(:chains AS text) AS json)) AS sent (id)
)) AND job.status <> 'completed';

-- find_dependants: which jobs wait for chains, or did.
-- params: chains json
-- returns: blocked_by_chain_id text, id text, chain_id text, is_unfinished boolean
-- concurrency: read only. With the chains' jobs locked (lock_chains) nobody can come to wait for them: whoever does locks
--   their tails first.
-- locks: none.
SELECT job_blocker.blocked_by_chain_id::text AS blocked_by_chain_id, job.id::text AS id, job.chain_id::text AS chain_id,
       job.status IN ('blocked', 'pending', 'running') AS is_unfinished
FROM /*schema.*/job_blocker AS job_blocker
JOIN /*schema.*/job AS job ON job.id = job_blocker.job_id
WHERE job_blocker.blocked_by_chain_id = ANY (ARRAY(
    SELECT CAST(id AS /*id*/uuid) FROM json_array_elements_text(CAST(CAST(:chains AS text) AS json)) AS sent (id)
));

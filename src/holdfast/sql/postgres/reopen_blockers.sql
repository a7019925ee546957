-- reopen_blockers: chains that had ended begin anew, so jobs that were told of their end, and still wait, wait for them again.
-- params: chains json
-- returns: none
-- concurrency: the chains' tails are locked before (lock_jobs, with those who wait), so nobody comes to wait for them
--   meanwhile who would take them for ended. A job that was released meanwhile waits for nothing and is left alone; one that has
--   run already waits for children or a signal, and looks at its children again by itself.
--   Refused where who waits cannot be seen (seen_chains).
-- locks: job rows by id, which lock_jobs has locked but for those that came to wait again since; these are waited for.
WITH told AS MATERIALIZED (
    SELECT job_id, index FROM /*schema.*/job_blocker AS job_blocker
    WHERE is_resolved AND blocked_by_chain_id = ANY (ARRAY(
        SELECT unnest(/*schema.*/seen_chains(ARRAY(
            SELECT CAST(id AS /*id*/uuid) FROM json_array_elements_text(CAST(CAST(:chains AS text) AS json)) AS sent (id)
        )))
    ))
),
waiting AS MATERIALIZED (
    SELECT id FROM /*schema.*/job AS job
    WHERE id = ANY (ARRAY(SELECT job_id FROM told)) AND waiting_for > 0 AND lease_generation = 0
    ORDER BY id
    FOR NO KEY UPDATE
),
reopened AS (
    UPDATE /*schema.*/job_blocker AS job_blocker SET is_resolved = false
    FROM told JOIN waiting ON waiting.id = told.job_id
    WHERE job_blocker.job_id = told.job_id AND job_blocker.index = told.index
    RETURNING job_blocker.job_id
)
UPDATE /*schema.*/job AS job
SET waiting_for = waiting_for + times
FROM (SELECT job_id, count(*) AS times FROM reopened GROUP BY job_id) AS counted
WHERE job.id = counted.job_id;

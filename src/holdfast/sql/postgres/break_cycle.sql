-- break_cycle: end one job of a cycle of chains that wait for each other, if all of it still stands.
-- params: now timestamptz, job text, links json, error json
-- returns: chain_id text (of the job, if it was ended)
-- concurrency: the jobs of the cycle are locked before (lock_jobs), and what a job waits for changes only under its lock.
--   The state is in a CASE to keep the planner off the index of certain states, which it would read as a whole.
-- locks: job rows that are locked already.
UPDATE /*schema.*/job AS job
SET status = 'dead_letter', finished_at = /*moment*/statement_timestamp(),
    last_attempt_error = CAST(CAST(:error AS text) AS json)
WHERE id = CAST(CAST(:job AS text) AS /*id*/uuid) AND CASE WHEN status = 'blocked' THEN true END AND NOT EXISTS (
    SELECT FROM json_to_recordset(CAST(CAST(:links AS text) AS json)) AS link (job_id /*id*/uuid, chain_id /*id*/uuid)
    WHERE NOT EXISTS (
        SELECT FROM /*schema.*/job AS waiting
        JOIN /*schema.*/job_blocker AS job_blocker ON job_blocker.job_id = waiting.id
        WHERE waiting.id = link.job_id AND CASE WHEN waiting.status = 'blocked' THEN true END
          AND job_blocker.blocked_by_chain_id = link.chain_id AND NOT job_blocker.is_resolved
    )
)
RETURNING chain_id::text;

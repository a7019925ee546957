-- break_cycle: end one job of a cycle of chains that wait for each other, if all of it still stands.
-- params: now timestamptz, job text, links json, error json
-- returns: chain_id text (of the job, if it was ended)
-- concurrency: inside a write transaction.
-- locks: the database's write lock.
UPDATE /*schema.*/job AS job
SET status = 'dead_letter', finished_at = :now, last_attempt_error = :error
WHERE id = :job AND status = 'blocked' AND NOT EXISTS (
    SELECT 1 FROM json_each(:links) AS link
    WHERE NOT EXISTS (
        SELECT 1 FROM /*schema.*/job AS waiting
        CROSS JOIN /*schema.*/job_blocker AS job_blocker ON job_blocker.job_id = waiting.id
        WHERE waiting.id = json_extract(link.value, '$.job_id') AND waiting.status = 'blocked'
          AND job_blocker.blocked_by_chain_id = json_extract(link.value, '$.chain_id') AND NOT job_blocker.is_resolved
    )
)
RETURNING chain_id;

-- read_blockers: what became of the chains that a job waited for, in the order given.
-- params: id text, children boolean
-- returns: blocker json (of the chains that it has enqueued by itself, or of those behind which it was enqueued)
-- concurrency: read only; ended chains do not change.
-- locks: none.
SELECT json_build_object('chain_id', job_blocker.blocked_by_chain_id, 'status', tail.status, 'output', tail.output,
                         'error', tail.last_attempt_error, 'name', job_blocker.name,
                         'is_resolved', job_blocker.is_resolved)::text AS blocker
FROM /*schema.*/job_blocker AS job_blocker
LEFT JOIN LATERAL (
    SELECT job.status, job.output, job.last_attempt_error
    FROM /*schema.*/job AS job WHERE job.id = job_blocker.blocked_by_chain_id AND job.is_tail
    UNION ALL
    SELECT job.status, job.output, job.last_attempt_error
    FROM /*schema.*/job AS job
    WHERE job.chain_id = job_blocker.blocked_by_chain_id AND job.chain_index > 0 AND job.is_tail
    LIMIT 1
) AS tail ON true
WHERE job_blocker.job_id = CAST(:id AS /*id*/uuid) AND (job_blocker.name IS NOT NULL) = CAST(:children AS boolean)
ORDER BY job_blocker.index;

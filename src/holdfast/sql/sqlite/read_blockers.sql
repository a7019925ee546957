-- read_blockers: what became of the chains that a job waited for, in the order given.
-- params: id text, children boolean
-- returns: blocker json (of the chains that it has enqueued by itself, or of those behind which it was enqueued)
-- concurrency: read only; ended chains do not change.
-- locks: none.
SELECT json_object('chain_id', job_blocker.blocked_by_chain_id, 'status', tail.status, 'output', json(tail.output),
                   'error', json(tail.last_attempt_error), 'name', job_blocker.name,
                   'is_resolved', json(iif(job_blocker.is_resolved, 'true', 'false'))) AS blocker
FROM /*schema.*/job_blocker AS job_blocker
LEFT JOIN /*schema.*/job AS tail ON tail.seq = ifnull(
    (SELECT job.seq FROM /*schema.*/job AS job WHERE job.id = job_blocker.blocked_by_chain_id AND job.is_tail),
    (SELECT job.seq FROM /*schema.*/job AS job
     WHERE job.chain_id = job_blocker.blocked_by_chain_id AND job.chain_index > 0 AND job.is_tail)
)
WHERE job_blocker.job_id = :id AND (job_blocker.name IS NOT NULL) = :children
ORDER BY job_blocker."index";

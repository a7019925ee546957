-- list_blocked_jobs: a page of the jobs that wait for a chain, by seq.
-- params: id text (and seq, with a cursor)
-- returns: job json, seq bigint
-- concurrency: read only; keyset pages on seq neither skip nor repeat while rows are inserted.
-- locks: none.
SELECT /*document*/job.id AS job, job.seq AS seq
FROM /*schema.*/job AS job
WHERE job.id IN (
        SELECT job_blocker.job_id FROM /*schema.*/job_blocker AS job_blocker
        WHERE job_blocker.blocked_by_chain_id = :id AND job_blocker.is_resolved = 0
    )
  AND job.status = 'blocked'
  AND /*filters*/true
ORDER BY /*order*/seq DESC
LIMIT /*limit*/50;

-- list_blocked_jobs: a page of the jobs that wait for a chain, by seq.
-- params: id text (and seq, with a cursor)
-- returns: job json, seq bigint
-- concurrency: read only; keyset pages on seq neither skip nor repeat while rows are inserted.
-- locks: none.
-- OFFSET 0 keeps the planner from going through everything that is blocked.
SELECT /*document*/job.id AS job, job.seq AS seq
FROM (
    SELECT DISTINCT job_blocker.job_id AS id FROM /*schema.*/job_blocker AS job_blocker
    WHERE job_blocker.blocked_by_chain_id = CAST(:id AS /*id*/uuid) AND NOT job_blocker.is_resolved
) AS waiting
CROSS JOIN LATERAL (SELECT * FROM /*schema.*/job AS job WHERE job.id = waiting.id OFFSET 0) AS job
WHERE job.status = 'blocked'
  AND /*filters*/true
ORDER BY /*order*/seq DESC
LIMIT /*limit*/50;

-- find_held: the jobs that a worker holds, and whether it is registered.
-- params: worker text
-- returns: job_id text, chain_id text, queue text, status text (null: not registered)
-- concurrency: read only; what comes of it is written by fenced statements. One row without a job if it holds none.
-- locks: none.
SELECT job.id::text AS job_id, job.chain_id::text AS chain_id, job.queue, worker.status
FROM (SELECT CAST(:worker AS text) AS id) AS asked
LEFT JOIN /*schema.*/worker AS worker ON worker.id = asked.id
LEFT JOIN /*schema.*/job AS job ON job.status = 'running' AND job.leased_by = asked.id
ORDER BY job.id;

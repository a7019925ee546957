-- find_targets: the next jobs that a filter means, in order of enqueue.
-- params: after bigint, up_to bigint (and those of the chosen fragments)
-- returns: id text, seq bigint
-- concurrency: read only; keyset batches on seq, each within a stretch of it, so that no statement walks over a long
--   history in one go.
-- locks: none.
-- Filters are fixed fragments of job_fragments.sql.
SELECT job.id AS id, job.seq AS seq
FROM /*schema.*/job AS job
WHERE job.seq > :after AND job.seq <= :up_to
  AND (/*filters*/true)
ORDER BY job.seq
LIMIT /*limit*/500;

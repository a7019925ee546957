-- find_targets: the next jobs that a filter means, in order of enqueue.
-- params: after bigint, last bigint (and those of the chosen fragments)
-- returns: id text, seq bigint, newest bigint (the last job there is; a null last means up to it)
-- concurrency: read only; keyset batches on seq. What is enqueued while a verb works its way through is behind `last`.
-- locks: none.
-- Filters are fixed fragments of job_fragments.sql.
SELECT job.id::text AS id, job.seq, newest.seq AS newest
FROM (SELECT max(seq) AS seq FROM /*schema.*/job AS job) AS newest, /*schema.*/job AS job
WHERE job.seq > CAST(:after AS bigint) AND job.seq <= coalesce(CAST(:last AS bigint), newest.seq)
  AND (/*filters*/true)
ORDER BY job.seq
LIMIT /*limit*/500;

-- find_target_chains: the next chains that a filter means, in order of enqueue.
-- params: after bigint, up_to bigint (and those of the chosen fragments)
-- returns: id text, seq bigint
-- concurrency: read only; keyset batches on the seq of first jobs, which never changes, each within a stretch of it.
-- locks: none.
-- Filters are fixed fragments of job_fragments.sql, with the first job as job and the last one as tail.
SELECT job.id AS id, job.seq AS seq
FROM /*schema.*/job AS job
CROSS JOIN /*schema.*/job AS tail ON tail.id = iif(job.is_tail, job.id, (
    SELECT later.id FROM /*schema.*/job AS later
    WHERE later.chain_id = job.id AND later.chain_index > 0
    ORDER BY later.chain_index DESC LIMIT 1
))
WHERE job.seq > :after AND job.seq <= :up_to
  AND job.chain_index = 0 AND (/*filters*/true)
ORDER BY job.seq
LIMIT /*limit*/500;

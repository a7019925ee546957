-- find_target_chains: the next chains that a filter means, in order of enqueue.
-- params: after bigint, up_to bigint (and those of the chosen fragments)
-- returns: id text, seq bigint
-- concurrency: read only; keyset batches on the seq of first jobs, which never changes, each within a stretch of it.
-- locks: none.
-- Filters are fixed fragments of job_fragments.sql, with the first job as job and the last one as tail.
SELECT job.id::text AS id, job.seq
FROM /*schema.*/job AS job
CROSS JOIN LATERAL (
    SELECT job.status WHERE job.is_tail
    UNION ALL
    (SELECT later.status FROM /*schema.*/job AS later
     WHERE NOT job.is_tail AND later.chain_id = job.id AND later.chain_index > 0
     ORDER BY later.chain_index DESC LIMIT 1)
) AS tail
WHERE job.seq > CAST(:after AS bigint) AND job.seq <= CAST(:up_to AS bigint)
  AND job.chain_index = 0 AND (/*filters*/true)
ORDER BY job.seq
LIMIT /*limit*/500;

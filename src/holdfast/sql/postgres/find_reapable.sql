-- find_reapable: running jobs whose worker is dead, and then those whose lease ran out.
-- params: now timestamptz, worker text, dead_after_ms bigint
-- returns: id text, lease_generation bigint, type_name text, leased_by text, attempt smallint, crash_count smallint,
--   attempts_allowed integer, retry json, is_owner_dead boolean, is_unstarted boolean, is_uncertain boolean,
--   queue text, chain_id text, tenant text
-- concurrency: read only; reap_jobs checks everything again under the row's lock. The asking worker's own jobs are left
--   out: it renews them itself. The living are hashed once (NOT IN; OFFSET 0 keeps it one): as a join the planner, which
--   never knows how many jobs run, compares every running job with every worker.
-- locks: none.
SELECT job.id::text, job.lease_generation, job.type_name, job.leased_by, job.attempt, job.crash_count,
       coalesce(
           job.max_attempts,
           (SELECT value::text::integer FROM /*schema.*/setting AS setting WHERE name = 'max_attempts:' || job.type_name),
           (SELECT value::text::integer FROM /*schema.*/setting AS setting WHERE name = 'max_attempts'),
           job_type.max_attempts
       ) AS attempts_allowed,
       job_type.retry,
       is_owner_dead,
       is_owner_dead AND coalesce(NOT prefetch.is_promoted, false) AS is_unstarted,
       is_owner_dead AND coalesce(prefetch.is_promoted, false) AS is_uncertain,
       job.queue,
       job.chain_id::text,
       job.tenant
FROM (
    SELECT job.*, job.leased_by NOT IN (
        SELECT owner.id FROM /*schema.*/worker AS owner
        WHERE owner.status <> 'dead'
          AND owner.last_seen_at >= /*moment*/statement_timestamp()
                                    - CAST(:dead_after_ms AS bigint) * interval '1 millisecond'
    ) AS is_owner_dead
    FROM /*schema.*/job AS job
    WHERE job.status = 'running' AND job.leased_by <> CAST(:worker AS text)
    OFFSET 0
) AS job
LEFT JOIN /*schema.*/prefetch AS prefetch
    ON prefetch.worker_id = job.leased_by AND prefetch.claimed_at = job.last_attempt_at
LEFT JOIN /*schema.*/job_type AS job_type ON job_type.name = job.type_name
WHERE is_owner_dead OR job.leased_until < /*moment*/statement_timestamp()
ORDER BY is_owner_dead DESC, job.id
LIMIT /*limit*/500;

-- find_reapable: running jobs whose worker is dead, and then those whose lease ran out.
-- params: now timestamptz, worker text, dead_after_ms bigint
-- returns: id text, lease_generation bigint, type_name text, leased_by text, attempt smallint, crash_count smallint,
--   attempts_allowed integer, retry json, is_owner_dead boolean, is_unstarted boolean, is_uncertain boolean,
--   queue text, chain_id text, tenant text
-- concurrency: read only; reap_jobs checks everything again. The asking worker's own jobs are left out: it renews them
--   itself.
-- locks: none.
SELECT job.id, job.lease_generation, job.type_name, job.leased_by, job.attempt, job.crash_count,
       ifnull(ifnull(ifnull(
        job.max_attempts,
        (SELECT CAST(value AS INTEGER) FROM /*schema.*/setting AS setting WHERE name = 'max_attempts:' || job.type_name)),
        (SELECT CAST(value AS INTEGER) FROM /*schema.*/setting AS setting WHERE name = 'max_attempts')),
        job_type.max_attempts) AS attempts_allowed,
       job_type.retry,
       owner.id IS NULL AS is_owner_dead,
       owner.id IS NULL AND ifnull(NOT prefetch.is_promoted, 0) AS is_unstarted,
       owner.id IS NULL AND ifnull(prefetch.is_promoted, 0) AS is_uncertain,
       job.queue,
       job.chain_id,
       job.tenant
FROM /*schema.*/job AS job INDEXED BY /*name*/job_lease_idx
LEFT JOIN /*schema.*/worker AS owner
    ON owner.id = job.leased_by AND owner.status <> 'dead'
   AND owner.last_seen_at >= strftime('%Y-%m-%dT%H:%M:%f', :now, printf('-%.3f seconds', :dead_after_ms / 1000.0)) || '000Z'
LEFT JOIN /*schema.*/prefetch AS prefetch
    ON prefetch.worker_id = job.leased_by AND prefetch.claimed_at = job.last_attempt_at
LEFT JOIN /*schema.*/job_type AS job_type ON job_type.name = job.type_name
WHERE job.status = 'running' AND job.leased_by <> :worker
  AND (owner.id IS NULL OR job.leased_until < :now)
ORDER BY is_owner_dead DESC, job.id
LIMIT /*limit*/500;

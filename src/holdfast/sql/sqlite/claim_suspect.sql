-- claim_suspect: take one job whose earlier worker died, to be run alone.
-- params: now timestamptz, worker text, queues json, lease_ms bigint
-- returns: json rows of id text, lease_generation bigint, type_name text, input json, attempt smallint, queue text,
--   priority smallint, ready_at timestamptz, seq bigint, timeout_ms bigint, claimed_at timestamptz, crash_count smallint,
--   chain_id text, chain_index integer, chain_type_name text, created_at timestamptz, scheduled_at timestamptz,
--   max_attempts smallint, last_attempt_error json, tenant text, headers json, has_blockers boolean
--   (null stands for: claimed_at not prefetched; crash_count and chain_index 0; chain_id and chain_type_name the job's own;
--   created_at and scheduled_at the same as ready_at; has_blockers no. A value that is nearly always the same costs more to send than to know.)
-- concurrency: as claim_jobs; one at a time, so that a job that kills its worker takes no other down with it.
-- locks: the database's write lock.
-- part: claimed
SELECT json_group_array(json_array(
    id, lease_generation + 1, type_name, input, attempt + 1, queue, priority, ready_at, seq, timeout_ms,
    NULL, nullif(crash_count, 0), nullif(chain_id, id), nullif(chain_index, 0),
    nullif(chain_type_name, type_name), nullif(created_at, ready_at), nullif(scheduled_at, ready_at), max_attempts,
    last_attempt_error, tenant, headers, iif(on_blocker_failure IS NOT NULL, 1, NULL)
)) AS claimed
FROM (
    SELECT job.*
    FROM json_each(:queues) AS asked
    CROSS JOIN /*schema.*/job AS job INDEXED BY /*name*/job_suspect_idx
    WHERE job.status = 'pending' AND job.held = 0 AND job.crash_count > 0
      AND job.queue = asked.value AND job.ready_at <= :now
      AND (job.expires_at IS NULL OR job.attempt > 0 OR job.expires_at > :now)
    LIMIT 1
);
-- part: updated
UPDATE /*schema.*/job AS job
SET status = 'running', attempt = attempt + 1, lease_generation = lease_generation + 1,
    leased_by = :worker, last_attempt_at = :now,
    leased_until = strftime('%Y-%m-%dT%H:%M:%f', :now, printf('+%.3f seconds', :lease_ms / 1000.0)) || '000Z'
WHERE seq IN (SELECT json_extract(value, '$[8]') FROM json_each(:claimed));

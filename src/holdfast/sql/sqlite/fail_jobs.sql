-- fail_jobs: end attempts that failed: another one later, or a dead letter, or cancelled.
-- params: now timestamptz, worker text, jobs json
-- returns: id text, outcome text ('pending', 'dead_letter', 'cancelled'; 'completed' = it is, under this generation, 'lost' =
--   not yours any more; and 'unsettled' = a chain with dependants, to be settled in the same transaction)
-- concurrency: fenced by (id, lease_generation, running). Failing again under the same generation reports what the first
--   try did; a job that the reaper or a release took back is lost. A job that somebody asked to cancel is cancelled,
--   never pending, for the reason given; the attempt keeps what the handler raised. Of older attempts the last 20 are kept.
-- locks: the database's write lock.
-- Attempts allowed: the job's own, the operator's for the type, the operator's for all, the type's.
-- part: ended
SELECT json_group_array(json_object(
    'seq', job.seq, 'took_ms', json_extract(sent.value, '$.duration_ms'),
    'error', json_extract(sent.value, '$.error'), 'delay_ms', json_extract(sent.value, '$.delay_ms'),
    'retry_at', json_extract(sent.value, '$.retry_at'),
    'verdict', CASE
        WHEN json_extract(sent.value, '$.is_cancelled') OR job.cancel_requested_at IS NOT NULL THEN 'cancelled'
        WHEN json_extract(sent.value, '$.is_final') OR job.attempt >= ifnull(ifnull(ifnull(
            job.max_attempts,
            (SELECT CAST(value AS INTEGER) FROM /*schema.*/setting AS setting WHERE name = 'max_attempts:' || job.type_name)),
            (SELECT CAST(value AS INTEGER) FROM /*schema.*/setting AS setting WHERE name = 'max_attempts')),
            json_extract(sent.value, '$.max_attempts')) THEN 'dead_letter'
        ELSE 'pending' END
)) AS ended
FROM json_each(:jobs) AS sent
CROSS JOIN /*schema.*/job AS job ON job.id = json_extract(sent.value, '$.id')
WHERE job.lease_generation = json_extract(sent.value, '$.lease_generation') AND job.status = 'running';
-- part: remembered
INSERT INTO /*schema.*/job_attempt
    (job_id, lease_generation, started_at, ended_at, attempt, worker_id, outcome, error)
SELECT job.id, lease_generation, last_attempt_at, :now, attempt, :worker,
       iif(json_extract(value, '$.verdict') = 'cancelled', 'cancelled', 'failed'), json_extract(value, '$.error')
FROM json_each(:ended) CROSS JOIN /*schema.*/job AS job ON seq = json_extract(value, '$.seq');
-- part: forgotten
DELETE FROM /*schema.*/job_attempt AS job_attempt
WHERE job_id IN (
    SELECT job.id FROM json_each(:ended) CROSS JOIN /*schema.*/job AS job ON job.seq = json_extract(value, '$.seq')
    WHERE job.lease_generation > 20
) AND lease_generation <= (
    SELECT old.lease_generation FROM /*schema.*/job_attempt AS old WHERE old.job_id = job_attempt.job_id
    ORDER BY old.lease_generation DESC LIMIT 1 OFFSET 20
);
-- part: updated
UPDATE /*schema.*/job AS job
SET status = verdict,
    ready_at = iif(verdict <> 'pending', ready_at, max(:now, ifnull(retry_at,
        strftime('%Y-%m-%dT%H:%M:%f', :now, printf('+%.3f seconds', delay_ms / 1000.0)) || '000Z'))),
    finished_at = iif(verdict <> 'pending', :now, NULL),
    duration_ms = ifnull(took_ms,
        CAST(round((julianday(:now) - julianday(last_attempt_at)) * 86400000) AS INTEGER)),
    last_attempt_error = ifnull(json_extract(cancel_request, '$.error'), error), leased_by = NULL, leased_until = NULL
FROM (
    SELECT json_extract(value, '$.seq') AS ended_seq, json_extract(value, '$.error') AS error,
           json_extract(value, '$.took_ms') AS took_ms,
           json_extract(value, '$.delay_ms') AS delay_ms, json_extract(value, '$.retry_at') AS retry_at,
           json_extract(value, '$.verdict') AS verdict
    FROM json_each(:ended)
)
WHERE seq = ended_seq;
-- part: outcomes
SELECT json_extract(value, '$.id') AS id, ifnull((
    SELECT job.status FROM /*schema.*/job AS job
    LEFT JOIN /*schema.*/job_attempt AS job_attempt
        ON job_attempt.job_id = job.id AND job_attempt.lease_generation = job.lease_generation
    WHERE job.id = json_extract(value, '$.id')
      AND job.lease_generation = json_extract(value, '$.lease_generation')
      AND (job.status = 'completed' OR (job.status IN ('pending', 'dead_letter', 'cancelled')
                                        AND job_attempt.outcome IN ('failed', 'cancelled')))
), 'lost') AS outcome
FROM json_each(:jobs)
UNION ALL
SELECT DISTINCT job.chain_id, 'unsettled'
FROM json_each(:jobs)
CROSS JOIN /*schema.*/job AS job ON job.id = json_extract(value, '$.id')
CROSS JOIN /*schema.*/job_blocker AS job_blocker ON job_blocker.blocked_by_chain_id = job.chain_id
WHERE job.status IN ('dead_letter', 'cancelled') AND NOT job_blocker.is_resolved;

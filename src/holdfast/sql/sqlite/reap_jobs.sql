-- reap_jobs: take jobs from holders that are gone: back to pending, to the dead letters, or cancelled.
-- params: now timestamptz, dead_after_ms bigint, jobs json
-- returns: id text, outcome text ('pending', 'dead_letter', 'cancelled'; and 'unsettled' = a chain with dependants, to be
--   settled in the same transaction)
-- concurrency: fenced by (id, lease_generation, running), and the reason is checked again: a lease renewed, or a
--   heartbeat seen, since find_reapable keeps its job. A job that somebody asked to cancel is cancelled, never pending. Of older
--   attempts the last 20 are kept.
-- locks: the database's write lock.
-- part: holding
SELECT json_group_array(json_set(sent.value, '$.seq', job.seq, '$.verdict', CASE
    WHEN job.cancel_requested_at IS NOT NULL THEN 'cancelled'
    WHEN json_extract(sent.value, '$.is_dead') THEN 'dead_letter' ELSE 'pending' END)) AS holding
FROM json_each(:jobs) AS sent
CROSS JOIN /*schema.*/job AS job ON job.id = json_extract(sent.value, '$.id')
WHERE job.lease_generation = json_extract(sent.value, '$.lease_generation') AND job.status = 'running'
  AND (job.leased_until < :now
       OR NOT EXISTS (
           SELECT 1 FROM /*schema.*/worker AS owner
           WHERE owner.id = job.leased_by AND owner.status <> 'dead'
             AND owner.last_seen_at >= strftime('%Y-%m-%dT%H:%M:%f', :now, printf('-%.3f seconds', :dead_after_ms / 1000.0)) || '000Z'
       ));
-- part: remembered
INSERT INTO /*schema.*/job_attempt
    (job_id, lease_generation, started_at, ended_at, attempt, worker_id, outcome, error)
SELECT job.id, lease_generation, last_attempt_at, :now, attempt, leased_by,
       iif(json_extract(value, '$.is_crash'), 'crashed', 'expired'), json_extract(value, '$.error')
FROM json_each(:holding) CROSS JOIN /*schema.*/job AS job ON seq = json_extract(value, '$.seq')
WHERE NOT json_extract(value, '$.is_refund') OR json_extract(value, '$.is_crash');
-- part: forgotten
DELETE FROM /*schema.*/job_attempt AS job_attempt
WHERE job_id IN (
    SELECT job.id FROM json_each(:holding) CROSS JOIN /*schema.*/job AS job ON job.seq = json_extract(value, '$.seq')
    WHERE job.lease_generation > 20
) AND lease_generation <= (
    SELECT old.lease_generation FROM /*schema.*/job_attempt AS old WHERE old.job_id = job_attempt.job_id
    ORDER BY old.lease_generation DESC LIMIT 1 OFFSET 20
);
-- part: updated
UPDATE /*schema.*/job AS job
SET status = verdict,
    attempt = attempt - is_refund,
    crash_count = crash_count + is_crash,
    ready_at = iif(verdict <> 'pending' OR (is_refund AND NOT is_crash), ready_at,
        strftime('%Y-%m-%dT%H:%M:%f', :now, printf('+%.3f seconds', delay_ms / 1000.0)) || '000Z'),
    finished_at = iif(verdict <> 'pending', :now, NULL),
    last_attempt_error = CASE WHEN verdict = 'cancelled' AND cancel_request IS NOT NULL
                              THEN json_extract(cancel_request, '$.error')
                              WHEN is_refund AND NOT is_crash THEN last_attempt_error ELSE error END,
    expires_at = iif(is_crash, NULL, expires_at), leased_by = NULL, leased_until = NULL
FROM (
    SELECT json_extract(value, '$.seq') AS held_seq, json_extract(value, '$.error') AS error,
           json_extract(value, '$.delay_ms') AS delay_ms, json_extract(value, '$.verdict') AS verdict,
           json_extract(value, '$.is_crash') AS is_crash, json_extract(value, '$.is_refund') AS is_refund
    FROM json_each(:holding)
)
WHERE seq = held_seq;
-- part: outcomes
SELECT job.id, job.status AS outcome
FROM json_each(:holding) CROSS JOIN /*schema.*/job AS job ON job.seq = json_extract(value, '$.seq')
UNION ALL
SELECT DISTINCT job.chain_id, 'unsettled'
FROM json_each(:holding)
CROSS JOIN /*schema.*/job AS job ON job.seq = json_extract(value, '$.seq')
CROSS JOIN /*schema.*/job_blocker AS job_blocker ON job_blocker.blocked_by_chain_id = job.chain_id
WHERE job.status <> 'pending' AND NOT job_blocker.is_resolved;

-- refuse_jobs: put back jobs that this worker cannot run, for one that can; a dead letter after too long.
-- params: now timestamptz, patience_ms bigint, jobs json
-- returns: id text, outcome text ('pending', 'dead_letter', 'cancelled'; 'lost' = not yours any more; and 'unsettled' = a
--   chain with dependants that ended, to be settled in the same transaction)
-- concurrency: fenced by (id, lease_generation, running). The attempt is refunded, the generation is not. The error keeps the
--   time of the first refusal in a row; the delay is the time since then, so it doubles, or the one that was asked for, but
--   never more than five minutes. Refusing again under the same generation reports what the first try did.
-- locks: the database's write lock.
-- part: holding
SELECT json_group_array(json_object(
    'seq', seq, 'error', error, 'since', since, 'delay', max(waited, delay_ms / 1000.0, 1.0),
    'verdict', CASE WHEN cancel_requested_at IS NOT NULL THEN 'cancelled'
                    WHEN waited * 1000 >= :patience_ms THEN 'dead_letter' ELSE 'pending' END
)) AS holding
FROM (
    SELECT job.seq, job.cancel_requested_at, json_extract(sent.value, '$.error') AS error,
           ifnull(json_extract(sent.value, '$.delay_ms'), 0) AS delay_ms, since,
           round((julianday(:now) - julianday(since)) * 86400, 3) AS waited
    FROM json_each(:jobs) AS sent
    CROSS JOIN (
        SELECT seq, id, status, lease_generation, cancel_requested_at,
               ifnull(json_extract(last_attempt_error, '$.first_refused_at'), :now) AS since
        FROM /*schema.*/job AS job
    ) AS job ON job.id = json_extract(sent.value, '$.id')
    WHERE job.lease_generation = json_extract(sent.value, '$.lease_generation') AND job.status = 'running'
);
-- part: updated
UPDATE /*schema.*/job AS job
SET status = verdict,
    attempt = attempt - 1,
    ready_at = iif(verdict = 'pending', strftime('%Y-%m-%dT%H:%M:%f', :now,
        printf('+%.3f seconds', min(delay, 300.0))) || '000Z', ready_at),
    finished_at = iif(verdict = 'pending', NULL, :now),
    last_attempt_error = json_object(
        'type', json_extract(ifnull(json_extract(cancel_request, '$.error'), error), '$.type'),
        'message', json_extract(ifnull(json_extract(cancel_request, '$.error'), error), '$.message'),
        'first_refused_at', since),
    leased_by = NULL, leased_until = NULL
FROM (
    SELECT json_extract(value, '$.seq') AS held_seq, json_extract(value, '$.error') AS error,
           json_extract(value, '$.since') AS since, json_extract(value, '$.delay') AS delay,
           json_extract(value, '$.verdict') AS verdict
    FROM json_each(:holding)
)
WHERE seq = held_seq;
-- part: outcomes
SELECT json_extract(value, '$.id') AS id, ifnull((
    SELECT job.status FROM /*schema.*/job AS job
    WHERE job.id = json_extract(value, '$.id') AND job.lease_generation = json_extract(value, '$.lease_generation')
      AND job.status IN ('pending', 'dead_letter', 'cancelled')
      AND json_extract(job.last_attempt_error, '$.first_refused_at') IS NOT NULL
), 'lost') AS outcome
FROM json_each(:jobs)
UNION ALL
SELECT DISTINCT job.chain_id, 'unsettled'
FROM json_each(:holding)
CROSS JOIN /*schema.*/job AS job ON job.seq = json_extract(value, '$.seq')
CROSS JOIN /*schema.*/job_blocker AS job_blocker ON job_blocker.blocked_by_chain_id = job.chain_id
WHERE job.status <> 'pending' AND NOT job_blocker.is_resolved;

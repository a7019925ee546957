-- expire_jobs: cancel up to /*limit*/500 jobs that nobody started by the time they were given.
-- params: now timestamptz
-- returns: id text, outcome text, chain_id text, type_name text, queue text, tenant text, lease_generation bigint, error text
--   (outcome is 'expired'; and, with no more than these two, 'unsettled' = a chain with dependants, to be settled in the same
--   transaction, and 'woken' = a queue in which the next job of a partition key may be claimed by this)
-- concurrency: inside a write transaction; claims leave these jobs alone.
-- locks: the database's write lock.
-- part: overdue
SELECT json_group_array(seq) AS overdue
FROM (
    SELECT seq FROM /*schema.*/job AS job INDEXED BY /*name*/job_expiry_idx
    WHERE expires_at IS NOT NULL AND attempt = 0 AND status IN ('pending', 'blocked') AND expires_at <= :now
    ORDER BY expires_at
    LIMIT /*limit*/500
);
-- part: freed
SELECT json_group_array(DISTINCT queue) AS freed
FROM json_each(:overdue) CROSS JOIN /*schema.*/job AS job ON job.seq = value
WHERE job.partition_key IS NOT NULL AND (job.held = 0 OR job.limited = 1);
-- part: expired
UPDATE /*schema.*/job AS job
SET status = 'cancelled', finished_at = :now,
    last_attempt_error = json_object('type', 'Expired', 'message',
        'not started by ' || replace(substr(expires_at, 1, 19), 'T', ' ') || ' UTC')
WHERE seq IN (SELECT value FROM json_each(:overdue));
-- part: outcomes
SELECT job.id, 'expired' AS outcome, job.chain_id, job.type_name, job.queue, job.tenant, job.lease_generation,
       job.last_attempt_error AS error
FROM json_each(:overdue) CROSS JOIN /*schema.*/job AS job ON job.seq = value
UNION ALL
SELECT DISTINCT job.chain_id, 'unsettled', NULL, NULL, NULL, NULL, NULL, NULL
FROM json_each(:overdue)
CROSS JOIN /*schema.*/job AS job ON job.seq = value
CROSS JOIN /*schema.*/job_blocker AS job_blocker ON job_blocker.blocked_by_chain_id = job.chain_id
WHERE NOT job_blocker.is_resolved
UNION ALL
SELECT value, 'woken', NULL, NULL, NULL, NULL, NULL, NULL FROM json_each(:freed);

-- release_orphans: give back jobs that this worker holds without knowing it (the answer to a claim was lost).
-- params: now timestamptz, worker text, known json, started boolean
-- returns: id text, outcome text ('pending', 'cancelled'; 'woken' = a queue that a job went back to; and 'unsettled' = a chain
--   with dependants that was cancelled, to be settled in the same transaction)
-- concurrency: called by the worker itself while it has no claim under way, so what it does not know it never started;
--   with started, by others or in the end: they may have been, and no longer expire; what was refused before is past.
--   A job that somebody asked to cancel is cancelled, never pending.
-- locks: the database's write lock.
-- part: orphans
SELECT json_group_array(seq) AS orphans
FROM /*schema.*/job AS job
WHERE status = 'running' AND leased_by = :worker AND id NOT IN (SELECT value FROM json_each(:known));
-- part: updated
UPDATE /*schema.*/job AS job
SET status = iif(cancel_requested_at IS NULL, 'pending', 'cancelled'),
    attempt = attempt - 1,
    finished_at = iif(cancel_requested_at IS NULL, NULL, :now),
    last_attempt_error = iif(cancel_requested_at IS NULL,
        iif(:started, json_remove(last_attempt_error, '$.first_refused_at'), last_attempt_error),
        ifnull(json_extract(cancel_request, '$.error'), json_object('type', 'Cancelled', 'message', 'cancelled before it was started'))),
    expires_at = iif(:started, NULL, expires_at), leased_by = NULL, leased_until = NULL
WHERE seq IN (SELECT value FROM json_each(:orphans));
-- part: outcomes
SELECT job.id, job.status AS outcome FROM json_each(:orphans) CROSS JOIN /*schema.*/job AS job ON job.seq = value
UNION ALL
SELECT DISTINCT job.queue, 'woken' FROM json_each(:orphans) CROSS JOIN /*schema.*/job AS job ON job.seq = value
UNION ALL
SELECT DISTINCT job.chain_id, 'unsettled'
FROM json_each(:orphans)
CROSS JOIN /*schema.*/job AS job ON job.seq = value
CROSS JOIN /*schema.*/job_blocker AS job_blocker ON job_blocker.blocked_by_chain_id = job.chain_id
WHERE job.status = 'cancelled' AND NOT job_blocker.is_resolved;

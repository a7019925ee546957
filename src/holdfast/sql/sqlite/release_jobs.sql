-- release_jobs: give claimed jobs back untouched, each to its old place.
-- params: now timestamptz, jobs json
-- returns: id text, outcome text (only what was not released: 'lost' = not yours any more, 'cancelled' = it was to be, so it
--   is; and 'unsettled' = a chain of these with dependants, to be settled in the same transaction)
-- concurrency: fenced by (id, lease_generation, running). The attempt is refunded, the generation is not: it only grows.
--   A job that somebody asked to cancel is cancelled, never pending. One that was started no longer expires, and what was
--   refused before that is past.
-- locks: the database's write lock.
-- part: cancelled
SELECT json_group_array(job.id) AS cancelled
FROM json_each(:jobs) CROSS JOIN /*schema.*/job AS job ON job.id = json_extract(value, '$.id')
WHERE job.lease_generation = json_extract(value, '$.lease_generation') AND job.status = 'running'
  AND job.cancel_requested_at IS NOT NULL;
-- part: updated
UPDATE /*schema.*/job AS job
SET status = iif(cancel_requested_at IS NULL, 'pending', 'cancelled'),
    attempt = attempt - 1,
    finished_at = iif(cancel_requested_at IS NULL, NULL, :now),
    last_attempt_error = iif(cancel_requested_at IS NULL,
        iif(is_started, json_remove(last_attempt_error, '$.first_refused_at'), last_attempt_error),
        ifnull(json_extract(cancel_request, '$.error'), json_object('type', 'Cancelled', 'message', 'cancelled while it ran'))),
    expires_at = iif(is_started, NULL, expires_at), leased_by = NULL, leased_until = NULL
FROM (
    SELECT json_extract(value, '$.id') AS id, json_extract(value, '$.lease_generation') AS lease_generation,
           json_extract(value, '$.is_started') AS is_started
    FROM json_each(:jobs)
) AS sent
WHERE job.id = sent.id AND job.lease_generation = sent.lease_generation AND job.status = 'running';
-- part: exceptions
SELECT json_extract(value, '$.id') AS id, 'lost' AS outcome
FROM json_each(:jobs)
WHERE NOT EXISTS (
    SELECT 1 FROM /*schema.*/job AS job
    WHERE job.id = json_extract(value, '$.id') AND job.lease_generation = json_extract(value, '$.lease_generation')
      AND (job.status = 'pending' OR job.id IN (SELECT value FROM json_each(:cancelled)))
)
UNION ALL
SELECT value, 'cancelled' FROM json_each(:cancelled)
UNION ALL
SELECT DISTINCT job.chain_id, 'unsettled'
FROM json_each(:cancelled)
CROSS JOIN /*schema.*/job AS job ON job.id = value
CROSS JOIN /*schema.*/job_blocker AS job_blocker ON job_blocker.blocked_by_chain_id = job.chain_id
WHERE NOT job_blocker.is_resolved;

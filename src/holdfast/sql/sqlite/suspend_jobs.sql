-- suspend_jobs: put running jobs to sleep, or let them wait for a signal or for their children, without a slot.
-- params: now timestamptz, jobs json
-- returns: id text, outcome text (only what was not done: 'lost' = not yours any more, 'cancelled' = it was to be, so it
--   is; and 'unsettled' = a chain of these with dependants, to be settled in the same transaction)
-- concurrency: fenced by (id, lease_generation, running). The attempt is refunded, the generation is not. What has a time is
--   pending until then, all else is blocked; of children only while some of them, counted in waiting_for, have not ended.
--   When a wait ends is decided when it is first written down. A signal that came meanwhile is looked for by the next
--   statement of the transaction (wake_signalled). A job that somebody asked to cancel is cancelled. Again under the same
--   generation changes nothing. A time that was set for a wait which ended early does not hold for the next one.
-- locks: the database's write lock.
-- part: cancelled
SELECT json_group_array(job.id) AS cancelled
FROM json_each(:jobs) CROSS JOIN /*schema.*/job AS job ON job.id = json_extract(value, '$.id')
WHERE job.lease_generation = json_extract(value, '$.lease_generation') AND job.status = 'running'
  AND job.cancel_requested_at IS NOT NULL;
-- part: planned
SELECT json_group_array(json_object('id', id, 'kind', kind, 'name', name, 'signal', signal, 'ends_at', ends_at,
                                    'lease_generation', lease_generation)) AS planned
FROM (
    SELECT job.id, job.lease_generation, json_extract(value, '$.kind') AS kind, json_extract(value, '$.name') AS name,
           json_extract(value, '$.signal') AS signal,
           coalesce(
               (SELECT job_step.ends_at FROM /*schema.*/job_step AS job_step
                WHERE job_step.job_id = job.id AND job_step.name = json_extract(value, '$.name')),
               json_extract(value, '$.until'),
               CASE WHEN json_extract(value, '$.delay_ms') IS NOT NULL
                    THEN strftime('%Y-%m-%dT%H:%M:%f', :now,
                                  printf('+%.3f seconds', json_extract(value, '$.delay_ms') / 1000.0)) || '000Z' END
           ) AS ends_at
    FROM json_each(:jobs) CROSS JOIN /*schema.*/job AS job ON job.id = json_extract(value, '$.id')
    WHERE job.lease_generation = json_extract(value, '$.lease_generation') AND job.status = 'running'
);
-- part: noted
INSERT INTO /*schema.*/job_step (job_id, name, kind, signal, ends_at, lease_generation, saved_at)
SELECT json_extract(value, '$.id'), json_extract(value, '$.name'), json_extract(value, '$.kind'),
       json_extract(value, '$.signal'), json_extract(value, '$.ends_at'), json_extract(value, '$.lease_generation'), :now
FROM json_each(:planned)
WHERE json_extract(value, '$.kind') <> 'children'
  AND json_extract(value, '$.id') NOT IN (SELECT value FROM json_each(:cancelled))
ON CONFLICT (job_id, name) DO UPDATE
SET lease_generation = excluded.lease_generation, signal = excluded.signal, ends_at = excluded.ends_at;
-- part: let_go
UPDATE /*schema.*/job_blocker AS job_blocker SET is_resolved = 1
WHERE is_resolved = 0 AND job_id IN (
    SELECT json_extract(value, '$.id') FROM json_each(:planned) WHERE json_extract(value, '$.kind') <> 'children'
);
-- part: updated
UPDATE /*schema.*/job AS job
SET status = CASE WHEN cancel_requested_at IS NOT NULL THEN 'cancelled'
                  WHEN kind = 'signal' AND ends_at IS NULL OR kind = 'children' AND waiting_for > 0 THEN 'blocked'
                  ELSE 'pending' END,
    waiting_for = CASE WHEN kind = 'children' THEN waiting_for
                       WHEN kind = 'signal' AND ends_at IS NULL AND cancel_requested_at IS NULL THEN 1
                       ELSE 0 END,
    held = held AND NOT (kind = 'signal' AND ends_at IS NULL OR kind = 'children' AND waiting_for > 0),
    attempt = attempt - 1,
    scheduled_at = min(scheduled_at, :now),
    ready_at = iif(cancel_requested_at IS NULL, max(:now, ifnull(ends_at, :now)), ready_at),
    step = ifnull(planned.name, step),
    finished_at = iif(cancel_requested_at IS NULL, NULL, :now),
    last_attempt_error = iif(cancel_requested_at IS NULL, json_remove(last_attempt_error, '$.first_refused_at'),
        ifnull(json_extract(cancel_request, '$.error'), json_object('type', 'Cancelled', 'message', 'cancelled while it ran'))),
    expires_at = NULL, leased_by = NULL, leased_until = NULL
FROM (
    SELECT json_extract(value, '$.id') AS id, json_extract(value, '$.kind') AS kind, json_extract(value, '$.name') AS name,
           json_extract(value, '$.ends_at') AS ends_at
    FROM json_each(:planned)
) AS planned
WHERE job.id = planned.id;
-- part: exceptions
SELECT json_extract(value, '$.id') AS id, 'lost' AS outcome
FROM json_each(:jobs)
WHERE NOT EXISTS (
    SELECT 1 FROM /*schema.*/job AS job
    WHERE job.id = json_extract(value, '$.id') AND job.lease_generation = json_extract(value, '$.lease_generation')
      AND (job.status IN ('pending', 'blocked') OR job.id IN (SELECT value FROM json_each(:cancelled)))
)
UNION ALL
SELECT value, 'cancelled' FROM json_each(:cancelled)
UNION ALL
SELECT DISTINCT job.chain_id, 'unsettled'
FROM json_each(:cancelled)
CROSS JOIN /*schema.*/job AS job ON job.id = value
CROSS JOIN /*schema.*/job_blocker AS job_blocker ON job_blocker.blocked_by_chain_id = job.chain_id
WHERE NOT job_blocker.is_resolved;

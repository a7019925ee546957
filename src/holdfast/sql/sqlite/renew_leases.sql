-- renew_leases: extend the leases of the given holders.
-- params: now timestamptz, leases json, lease_ms bigint
-- returns: id text, outcome text (only where there is something to know: 'cancel_requested' = renewed, and asked to stop;
--   else why the job is not the holder's: 'completed', 'cancelled', 'deleted', 'lost')
-- concurrency: fenced by (id, lease_generation, running).
-- locks: the database's write lock.
UPDATE /*schema.*/job AS job
SET leased_until = strftime('%Y-%m-%dT%H:%M:%f', :now, printf('+%.3f seconds', :lease_ms / 1000.0)) || '000Z'
FROM (
    SELECT json_extract(value, '$.id') AS id, json_extract(value, '$.lease_generation') AS lease_generation
    FROM json_each(:leases)
) AS sent
WHERE job.id = sent.id AND job.lease_generation = sent.lease_generation AND job.status = 'running';
-- part: exceptions
SELECT json_extract(sent.value, '$.id') AS id,
       CASE WHEN job.id IS NULL THEN 'deleted'
            WHEN job.status = 'completed' AND job.completed_by IS NULL THEN 'completed'
            WHEN job.lease_generation <> json_extract(sent.value, '$.lease_generation') THEN 'lost'
            WHEN job.status = 'running' THEN 'cancel_requested'
            WHEN job.status IN ('completed', 'cancelled') THEN job.status
            ELSE 'lost' END AS outcome
FROM json_each(:leases) AS sent
LEFT JOIN /*schema.*/job AS job ON job.id = json_extract(sent.value, '$.id')
WHERE job.id IS NULL OR job.status <> 'running' OR job.cancel_requested_at IS NOT NULL
   OR job.lease_generation <> json_extract(sent.value, '$.lease_generation');

-- check_leases: what holders should know about the jobs they hold.
-- params: leases json
-- returns: id text, outcome text (only where there is something to know: 'cancel_requested' = asked to stop; or why the job
--   is not the holder's: 'completed', 'cancelled', 'deleted', 'lost')
-- concurrency: read only.
-- locks: none.
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

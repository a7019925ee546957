-- check_leases: what holders should know about the jobs they hold.
-- params: leases json
-- returns: id text, outcome text (only where there is something to know: 'cancel_requested' = asked to stop; or why the job
--   is not the holder's: 'completed', 'cancelled', 'deleted', 'lost')
-- concurrency: read only.
-- locks: none.
SELECT sent.id::text,
       CASE WHEN job.id IS NULL THEN 'deleted'
            WHEN job.status = 'completed' AND job.completed_by IS NULL THEN 'completed'
            WHEN job.lease_generation <> sent.lease_generation THEN 'lost'
            WHEN job.status = 'running' THEN 'cancel_requested'
            WHEN job.status IN ('completed', 'cancelled') THEN job.status
            ELSE 'lost' END AS outcome
FROM json_to_recordset(CAST(CAST(:leases AS text) AS json)) AS sent (id /*id*/uuid, lease_generation bigint)
LEFT JOIN LATERAL (
    SELECT job.id, job.lease_generation, job.status, job.cancel_requested_at, job.completed_by
    FROM /*schema.*/job AS job WHERE job.id = sent.id
    OFFSET 0
) AS job ON true
WHERE job.id IS NULL OR job.status <> 'running' OR job.lease_generation <> sent.lease_generation
   OR job.cancel_requested_at IS NOT NULL;

-- renew_leases: extend the leases of the given holders.
-- params: now timestamptz, leases json, lease_ms bigint
-- returns: id text, outcome text (only where there is something to know: 'locked' = not renewed, try again;
--   'cancel_requested' = renewed, and asked to stop; else why the job is not the holder's: 'completed', 'cancelled',
--   'deleted', 'lost')
-- concurrency: fenced by (id, lease_generation, running); rows that somebody has locked are skipped, not waited for, so
--   one user's open transaction cannot let every other lease run out. HOT: no index holds leased_until.
--   The fence is written as a CASE to keep the planner off the index of running jobs, which it would read as a whole.
-- locks: job rows by id, never waited for.
WITH sent AS MATERIALIZED (
    SELECT id, lease_generation
    FROM json_to_recordset(CAST(CAST(:leases AS text) AS json)) AS lease (id /*id*/uuid, lease_generation bigint)
),
holding AS MATERIALIZED (
    SELECT job.ctid, job.id
    FROM sent JOIN /*schema.*/job AS job ON job.id = sent.id
    WHERE job.id = ANY (ARRAY(SELECT id FROM sent))
      AND CASE WHEN job.status = 'running' THEN job.lease_generation END = sent.lease_generation
    ORDER BY job.id
    FOR NO KEY UPDATE OF job SKIP LOCKED
),
renewed AS (
    UPDATE /*schema.*/job AS job
    SET leased_until = /*moment*/statement_timestamp()
                       + CAST(:lease_ms AS bigint) * interval '1 millisecond'
    WHERE ctid = ANY (ARRAY(SELECT ctid FROM holding))
    RETURNING id, cancel_requested_at
)
SELECT sent.id::text,
       CASE WHEN job.id IS NULL THEN 'deleted'
            WHEN job.status = 'completed' AND job.completed_by IS NULL THEN 'completed'
            WHEN job.lease_generation <> sent.lease_generation THEN 'lost'
            WHEN job.status = 'running' THEN 'locked'
            WHEN job.status IN ('completed', 'cancelled') THEN job.status
            ELSE 'lost' END AS outcome
FROM sent LEFT JOIN /*schema.*/job AS job ON job.id = sent.id
WHERE NOT EXISTS (SELECT FROM renewed WHERE renewed.id = sent.id)
UNION ALL
SELECT id::text, 'cancel_requested' FROM renewed WHERE cancel_requested_at IS NOT NULL;

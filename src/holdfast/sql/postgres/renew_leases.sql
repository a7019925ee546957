-- renew_leases: extend the leases of the given holders.
-- params: now timestamptz, leases json, lease_ms bigint
-- returns: id text, outcome text (only what was not renewed: 'locked' = try again, 'lost' = stop working on it)
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
    SET leased_until = coalesce(CAST(:now AS timestamptz), statement_timestamp())
                       + CAST(:lease_ms AS bigint) * interval '1 millisecond'
    WHERE ctid = ANY (ARRAY(SELECT ctid FROM holding))
    RETURNING id
)
SELECT sent.id::text,
       CASE WHEN job.status = 'running' AND job.lease_generation = sent.lease_generation
            THEN 'locked' ELSE 'lost' END AS outcome
FROM sent LEFT JOIN /*schema.*/job AS job ON job.id = sent.id
WHERE NOT EXISTS (SELECT FROM renewed WHERE renewed.id = sent.id);

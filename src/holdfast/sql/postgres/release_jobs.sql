-- release_jobs: give claimed jobs back untouched, each to its old place.
-- params: jobs json
-- returns: id text, outcome text (only what was not released: 'locked' = try again alone, 'lost' = not yours any more)
-- concurrency: fenced by (id, lease_generation, running), locked rows skipped. The attempt is refunded, the
--   generation is not: it only grows.
--   The fence is written as a CASE to keep the planner off the index of running jobs, which it would read as a whole.
-- locks: job rows by id, never waited for.
WITH sent AS MATERIALIZED (
    SELECT id, lease_generation
    FROM json_to_recordset(CAST(CAST(:jobs AS text) AS json)) AS lease (id /*id*/uuid, lease_generation bigint)
),
holding AS MATERIALIZED (
    SELECT job.ctid, job.id
    FROM sent JOIN /*schema.*/job AS job ON job.id = sent.id
    WHERE job.id = ANY (ARRAY(SELECT id FROM sent))
      AND CASE WHEN job.status = 'running' THEN job.lease_generation END = sent.lease_generation
    ORDER BY job.id
    FOR NO KEY UPDATE OF job SKIP LOCKED
),
released AS (
    UPDATE /*schema.*/job AS job
    SET status = 'pending', attempt = attempt - 1, leased_by = NULL, leased_until = NULL
    WHERE ctid = ANY (ARRAY(SELECT ctid FROM holding))
    RETURNING id
)
SELECT sent.id::text, CASE WHEN job.status = 'running' THEN 'locked' ELSE 'lost' END AS outcome
FROM sent LEFT JOIN /*schema.*/job AS job ON job.id = sent.id AND job.lease_generation = sent.lease_generation
WHERE sent.id NOT IN (SELECT id FROM released)
  AND job.status IS DISTINCT FROM 'pending';

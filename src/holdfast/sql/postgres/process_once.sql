-- process_once: whether a handler does something for the first time, by a key of its own.
-- params: now timestamptz, id text, lease_generation bigint, type_name text, key text, keep_ms bigint
-- returns: outcome text ('first', 'repeated'; else why the job is not the holder's: 'completed', 'cancelled', 'deleted',
--   'lost')
-- concurrency: fenced by (id, lease_generation, running), without a lock on the job. Of two transactions with one key the
--   second waits for the end of the first: committed, it is a repetition; rolled back, it never was. A key older than
--   keep_ms counts as new.
-- locks: one row of processed, waited for.
WITH holding AS MATERIALIZED (
    SELECT job.id
    FROM /*schema.*/job AS job
    WHERE job.id = CAST(:id AS /*id*/uuid)
      AND CASE WHEN job.status = 'running' THEN job.lease_generation END = CAST(:lease_generation AS bigint)
),
first AS (
    INSERT INTO /*schema.*/processed AS processed (type_name, key, job_id, processed_at)
    SELECT CAST(:type_name AS text), CAST(:key AS text), id, coalesce(CAST(:now AS timestamptz), statement_timestamp())
    FROM holding
    ON CONFLICT (type_name, key) DO UPDATE SET job_id = excluded.job_id, processed_at = excluded.processed_at
    WHERE processed.processed_at < excluded.processed_at - CAST(:keep_ms AS bigint) * interval '1 millisecond'
    RETURNING job_id
)
SELECT CASE WHEN (SELECT count(*) FROM first) = 1 THEN 'first' ELSE coalesce((
    SELECT CASE WHEN job.status = 'completed' AND job.completed_by IS NULL THEN 'completed'
                WHEN job.lease_generation <> CAST(:lease_generation AS bigint) THEN 'lost'
                WHEN job.status = 'running' THEN 'repeated'
                WHEN job.status IN ('completed', 'cancelled') THEN job.status
                ELSE 'lost' END
    FROM /*schema.*/job AS job WHERE job.id = CAST(:id AS /*id*/uuid)
), 'deleted') END AS outcome;

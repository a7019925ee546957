-- save_step: remember the result of a step of a job that its holder still holds.
-- params: now timestamptz, id text, lease_generation bigint, name text, result json
-- returns: outcome text ('held' = saved; 'locked' = try again; else why the job is not the holder's: 'completed',
--   'completed_here', 'cancelled', 'deleted', 'lost')
-- concurrency: fenced by (id, lease_generation, running); the row's lock keeps the job from being taken before the result
--   is committed with it. Saving again keeps the first result: the answer to the first try may have been lost.
-- locks: one job row, never waited for.
WITH holding AS MATERIALIZED (
    SELECT job.ctid, job.id
    FROM /*schema.*/job AS job
    WHERE job.id = CAST(:id AS /*id*/uuid)
      AND CASE WHEN job.status = 'running' THEN job.lease_generation END = CAST(:lease_generation AS bigint)
    FOR NO KEY UPDATE SKIP LOCKED
),
saved AS (
    INSERT INTO /*schema.*/job_step (job_id, name, result, lease_generation, saved_at)
    SELECT id, CAST(:name AS text), CAST(CAST(:result AS text) AS json), CAST(:lease_generation AS bigint),
           /*moment*/statement_timestamp()
    FROM holding
    ON CONFLICT (job_id, name) DO NOTHING
),
noted AS (
    UPDATE /*schema.*/job AS job SET step = CAST(:name AS text)
    WHERE ctid = ANY (ARRAY(SELECT ctid FROM holding))
    RETURNING id
)
SELECT CASE WHEN (SELECT count(*) FROM noted) = 1 THEN 'held' ELSE coalesce((
    SELECT CASE WHEN job.status = 'completed' AND job.completed_by IS NULL THEN 'completed'
                WHEN job.lease_generation <> CAST(:lease_generation AS bigint) THEN 'lost'
                WHEN job.status = 'running' THEN 'locked'
                WHEN job.status = 'completed' THEN 'completed_here'
                WHEN job.status = 'cancelled' THEN 'cancelled'
                ELSE 'lost' END
    FROM /*schema.*/job AS job WHERE job.id = CAST(:id AS /*id*/uuid)
), 'deleted') END AS outcome;

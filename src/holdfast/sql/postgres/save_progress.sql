-- save_progress: note how far a job is that its holder still holds.
-- params: id text, lease_generation bigint, progress json
-- returns: outcome text ('held' = noted; 'locked' = somebody has the row; else why the job is not the holder's:
--   'completed', 'completed_here', 'cancelled', 'deleted', 'lost')
-- concurrency: fenced by (id, lease_generation, running). HOT: no index holds progress.
-- locks: one job row, never waited for.
WITH holding AS MATERIALIZED (
    SELECT job.ctid
    FROM /*schema.*/job AS job
    WHERE job.id = CAST(:id AS /*id*/uuid)
      AND CASE WHEN job.status = 'running' THEN job.lease_generation END = CAST(:lease_generation AS bigint)
    FOR NO KEY UPDATE SKIP LOCKED
),
noted AS (
    UPDATE /*schema.*/job AS job SET progress = CAST(CAST(:progress AS text) AS json)
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

-- hold_lease: make sure that a job stays its holder's until the end of the transaction.
-- params: id text, lease_generation bigint
-- returns: outcome text ('held'; 'locked' = try again; else why the job is not the holder's: 'completed',
--   'completed_here', 'cancelled', 'deleted', 'lost')
-- concurrency: fenced by (id, lease_generation, running). The row's lock stays until the transaction ends: reapers,
--   renewals and other batches skip the row meanwhile.
-- locks: one job row, never waited for.
WITH holding AS MATERIALIZED (
    SELECT job.id
    FROM /*schema.*/job AS job
    WHERE job.id = CAST(:id AS /*id*/uuid)
      AND CASE WHEN job.status = 'running' THEN job.lease_generation END = CAST(:lease_generation AS bigint)
    FOR NO KEY UPDATE SKIP LOCKED
)
SELECT CASE WHEN (SELECT count(*) FROM holding) = 1 THEN 'held' ELSE coalesce((
    SELECT CASE WHEN job.status = 'completed' AND job.completed_by IS NULL THEN 'completed'
                WHEN job.lease_generation <> CAST(:lease_generation AS bigint) THEN 'lost'
                WHEN job.status = 'running' THEN 'locked'
                WHEN job.status = 'completed' THEN 'completed_here'
                WHEN job.status = 'cancelled' THEN 'cancelled'
                ELSE 'lost' END
    FROM /*schema.*/job AS job WHERE job.id = CAST(:id AS /*id*/uuid)
), 'deleted') END AS outcome;

-- save_children: remember the chains that the holder of a job has enqueued in the same transaction, under the name of a step.
-- params: now timestamptz, id text, lease_generation bigint, name text, children json
-- returns: outcome text ('held' = saved; 'locked' = try again; else why the job is not the holder's: 'completed',
--   'completed_here', 'cancelled', 'deleted', 'lost')
-- concurrency: fenced by (id, lease_generation, running); the row's lock keeps the job from being taken, and the places of
--   its children from being given twice, before all is committed. From then on nobody may delete them before the job has
--   ended. Saving again changes nothing.
-- locks: one job row, never waited for.
WITH holding AS MATERIALIZED (
    SELECT job.ctid, job.id
    FROM /*schema.*/job AS job
    WHERE job.id = CAST(:id AS /*id*/uuid)
      AND CASE WHEN job.status = 'running' THEN job.lease_generation END = CAST(:lease_generation AS bigint)
    FOR NO KEY UPDATE SKIP LOCKED
),
saved AS (
    INSERT INTO /*schema.*/job_step (job_id, name, kind, result, lease_generation, saved_at)
    SELECT id, CAST(:name AS text), 'child', CAST(CAST(:children AS text) AS json), CAST(:lease_generation AS bigint),
           /*moment*/statement_timestamp()
    FROM holding
    ON CONFLICT (job_id, name) DO NOTHING
    RETURNING job_id
),
needed AS (
    INSERT INTO /*schema.*/job_blocker (job_id, blocked_by_chain_id, index, is_resolved, name)
    SELECT saved.job_id, child.chain_id, next.index + child.place, true, CAST(:name AS text)
    FROM saved
    CROSS JOIN json_to_recordset(CAST(CAST(:children AS text) AS json)) AS child (chain_id /*id*/uuid, place smallint)
    CROSS JOIN (
        SELECT coalesce(max(index) + 1, 0) AS index FROM /*schema.*/job_blocker AS job_blocker
        WHERE job_id = CAST(:id AS /*id*/uuid)
    ) AS next
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

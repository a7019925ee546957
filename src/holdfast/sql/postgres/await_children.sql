-- await_children: note which of its children a job is going to wait for; it runs on until it is suspended.
-- params: id text, lease_generation bigint, chains json, on_failure text
-- returns: outcome text ('held' = noted; 'locked' = try again; 'behind' = a child can never run; else why the job is not the
--   holder's: 'completed', 'completed_here', 'cancelled', 'deleted', 'lost'), behind text (null, or such a child: it is behind
--   the job in its own partition key)
-- concurrency: fenced by (id, lease_generation, running). The children's last jobs are locked before (hold_chains), so none
--   of them ends before this is committed; whoever ends one then counts down waiting_for, whether the job runs or waits.
-- locks: one job row, never waited for.
WITH holding AS MATERIALIZED (
    SELECT job.ctid, job.id, job.queue, job.partition_key, job.partition_seq
    FROM /*schema.*/job AS job
    WHERE job.id = CAST(:id AS /*id*/uuid)
      AND CASE WHEN job.status = 'running' THEN job.lease_generation END = CAST(:lease_generation AS bigint)
    FOR NO KEY UPDATE SKIP LOCKED
),
awaited AS MATERIALIZED (
    SELECT job_blocker.index, job_blocker.is_resolved, job_blocker.name IS NULL OR job_blocker.blocked_by_chain_id NOT IN (
        SELECT CAST(id AS /*id*/uuid) FROM json_array_elements_text(CAST(CAST(:chains AS text) AS json)) AS unfinished (id)
    ) AS is_over
    FROM holding JOIN /*schema.*/job_blocker AS job_blocker ON job_blocker.job_id = holding.id
),
changed AS (
    UPDATE /*schema.*/job_blocker AS job_blocker SET is_resolved = awaited.is_over
    FROM awaited
    WHERE job_blocker.job_id = CAST(:id AS /*id*/uuid) AND job_blocker.index = awaited.index
      AND awaited.is_resolved <> awaited.is_over
),
stuck AS MATERIALIZED (
    SELECT child.chain_id::text AS behind
    FROM holding
    CROSS JOIN json_array_elements_text(CAST(CAST(:chains AS text) AS json)) AS unfinished (id)
    JOIN /*schema.*/job AS child ON child.id = CAST(unfinished.id AS /*id*/uuid)
    WHERE child.queue = holding.queue AND child.partition_key = holding.partition_key
      AND child.ordering = 'fifo' AND child.partition_seq > holding.partition_seq
      AND CASE WHEN child.status IN ('blocked', 'pending') THEN true END
    LIMIT 1
),
noted AS (
    UPDATE /*schema.*/job AS job
    SET waiting_for = (SELECT count(*) FROM awaited WHERE NOT is_over), on_blocker_failure = CAST(:on_failure AS text)
    WHERE ctid = ANY (ARRAY(SELECT ctid FROM holding))
    RETURNING id
)
SELECT CASE WHEN EXISTS (SELECT FROM stuck) THEN 'behind' WHEN (SELECT count(*) FROM noted) = 1 THEN 'held' ELSE coalesce((
    SELECT CASE WHEN job.status = 'completed' AND job.completed_by IS NULL THEN 'completed'
                WHEN job.lease_generation <> CAST(:lease_generation AS bigint) THEN 'lost'
                WHEN job.status = 'running' THEN 'locked'
                WHEN job.status = 'completed' THEN 'completed_here'
                WHEN job.status = 'cancelled' THEN 'cancelled'
                ELSE 'lost' END
    FROM /*schema.*/job AS job WHERE job.id = CAST(:id AS /*id*/uuid)
), 'deleted') END AS outcome, (SELECT behind FROM stuck) AS behind;

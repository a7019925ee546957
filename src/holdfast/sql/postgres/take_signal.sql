-- take_signal: give the holder of a job the first signal of a name that was sent to its chain, as a step that is saved.
-- params: now timestamptz, id text, lease_generation bigint, name text, signal text
-- returns: outcome text ('held'; 'locked' = try again; else why the job is not the holder's: 'completed', 'completed_here',
--   'cancelled', 'deleted', 'lost'), result json (null while there is none; an object with the payload, or with timed_out
--   where the wait has an end that has passed)
-- concurrency: fenced by (id, lease_generation, running). The signal goes and the step comes in one statement; asked again,
--   because the answer was lost, it gives the same one. One that is committed while this looks is seen by the next look.
-- locks: one job row, never waited for; a signal.
WITH holding AS MATERIALIZED (
    SELECT job.ctid, job.id, job.chain_id
    FROM /*schema.*/job AS job
    WHERE job.id = CAST(:id AS /*id*/uuid)
      AND CASE WHEN job.status = 'running' THEN job.lease_generation END = CAST(:lease_generation AS bigint)
    FOR NO KEY UPDATE SKIP LOCKED
),
known AS MATERIALIZED (
    SELECT job_step.result, job_step.ends_at FROM holding JOIN /*schema.*/job_step AS job_step ON job_step.job_id = holding.id
    WHERE job_step.name = CAST(:name AS text)
),
first AS MATERIALIZED (
    SELECT job_signal.chain_id, job_signal.name, job_signal.seq
    FROM holding JOIN /*schema.*/job_signal AS job_signal ON job_signal.chain_id = holding.chain_id
    WHERE job_signal.name = CAST(:signal AS text) AND NOT EXISTS (SELECT FROM known WHERE known.result IS NOT NULL)
    ORDER BY job_signal.seq
    LIMIT 1
),
taken AS (
    DELETE FROM /*schema.*/job_signal AS job_signal USING first
    WHERE job_signal.chain_id = first.chain_id AND job_signal.name = first.name AND job_signal.seq = first.seq
    RETURNING job_signal.payload
),
decided AS MATERIALIZED (
    SELECT json_build_object('payload', taken.payload) AS result FROM taken
    UNION ALL
    SELECT json_build_object('timed_out', true) FROM known
    WHERE known.result IS NULL AND known.ends_at <= /*moment*/statement_timestamp()
      AND NOT EXISTS (SELECT FROM first)
),
saved AS (
    INSERT INTO /*schema.*/job_step AS job_step (job_id, name, kind, signal, result, lease_generation, saved_at)
    SELECT holding.id, CAST(:name AS text), 'signal', CAST(:signal AS text), decided.result,
           CAST(:lease_generation AS bigint), /*moment*/statement_timestamp()
    FROM holding CROSS JOIN decided
    ON CONFLICT (job_id, name) DO UPDATE
    SET result = excluded.result, lease_generation = excluded.lease_generation, saved_at = excluded.saved_at
),
noted AS (
    UPDATE /*schema.*/job AS job SET step = CAST(:name AS text)
    WHERE ctid = ANY (ARRAY(SELECT holding.ctid FROM holding CROSS JOIN decided))
)
SELECT CASE WHEN EXISTS (SELECT FROM holding) THEN 'held' ELSE coalesce((
    SELECT CASE WHEN job.status = 'completed' AND job.completed_by IS NULL THEN 'completed'
                WHEN job.lease_generation <> CAST(:lease_generation AS bigint) THEN 'lost'
                WHEN job.status = 'running' THEN 'locked'
                WHEN job.status = 'completed' THEN 'completed_here'
                WHEN job.status = 'cancelled' THEN 'cancelled'
                ELSE 'lost' END
    FROM /*schema.*/job AS job WHERE job.id = CAST(:id AS /*id*/uuid)
), 'deleted') END AS outcome,
coalesce((SELECT known.result FROM known), (SELECT decided.result FROM decided))::text AS result;

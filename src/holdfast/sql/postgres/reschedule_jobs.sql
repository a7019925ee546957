-- reschedule_jobs: give jobs that have not begun another time.
-- params: now timestamptz, jobs json, at timestamptz, delay_ms bigint
-- returns: none
-- concurrency: the rows are locked before (lock_jobs), so their status stands. A time that has passed means now, so a
--   worker that has already looked further finds the job all the same. A blocked job keeps the time for when its blockers
--   are done. The time until then is no refusal's, so these count anew.
--   A wait of the job's own that has an end ends then.
--   The states are in a CASE to keep the planner off the indexes of certain states, which it would read as a whole.
-- locks: job rows that are locked already.
WITH moved AS (
    UPDATE /*schema.*/job_step AS job_step
    SET ends_at = greatest(moment, coalesce(CAST(:at AS timestamptz),
                                            moment + CAST(:delay_ms AS bigint) * interval '1 millisecond'))
    FROM /*schema.*/job AS job, (SELECT /*moment*/statement_timestamp() AS moment) AS clock
    WHERE job.id = ANY (ARRAY(
        SELECT CAST(id AS /*id*/uuid) FROM json_array_elements_text(CAST(CAST(:jobs AS text) AS json)) AS sent (id)
    )) AND CASE WHEN job.status = 'pending' THEN true END
      AND job_step.job_id = job.id AND job_step.name = job.step AND job_step.lease_generation = job.lease_generation
      AND job_step.ends_at IS NOT NULL AND job_step.result IS NULL
)
UPDATE /*schema.*/job AS job
SET scheduled_at = due,
    held = held AND NOT limited,
    limited = false,
    ready_at = CASE WHEN status = 'pending' THEN due ELSE ready_at END,
    last_attempt_error = CASE WHEN last_attempt_error -> 'first_refused_at' IS NULL THEN last_attempt_error ELSE
        json_build_object('type', last_attempt_error -> 'type', 'message', last_attempt_error -> 'message') END
FROM (SELECT /*moment*/statement_timestamp() AS moment) AS clock,
     LATERAL (
         SELECT greatest(moment, coalesce(CAST(:at AS timestamptz),
                                          moment + CAST(:delay_ms AS bigint) * interval '1 millisecond')) AS due
     ) AS schedule
WHERE id = ANY (ARRAY(
    SELECT CAST(id AS /*id*/uuid) FROM json_array_elements_text(CAST(CAST(:jobs AS text) AS json)) AS sent (id)
)) AND CASE WHEN status IN ('blocked', 'pending') THEN true END;

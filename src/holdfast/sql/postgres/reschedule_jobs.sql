-- reschedule_jobs: give jobs that have not begun another time.
-- params: now timestamptz, jobs json, at timestamptz, delay_ms bigint
-- returns: none
-- concurrency: the rows are locked before (lock_jobs), so their status stands. A time that has passed means now, so a
--   worker that has already looked further finds the job all the same. A blocked job keeps the time for when its blockers
--   are done.
--   The states are in a CASE to keep the planner off the indexes of certain states, which it would read as a whole.
-- locks: job rows that are locked already.
UPDATE /*schema.*/job AS job
SET scheduled_at = due, ready_at = CASE WHEN status = 'pending' THEN due ELSE ready_at END
FROM (SELECT coalesce(CAST(:now AS timestamptz), statement_timestamp()) AS moment) AS clock,
     LATERAL (
         SELECT greatest(moment, coalesce(CAST(:at AS timestamptz),
                                          moment + CAST(:delay_ms AS bigint) * interval '1 millisecond')) AS due
     ) AS schedule
WHERE id = ANY (ARRAY(
    SELECT CAST(id AS /*id*/uuid) FROM json_array_elements_text(CAST(CAST(:jobs AS text) AS json)) AS sent (id)
)) AND CASE WHEN status IN ('blocked', 'pending') THEN true END;

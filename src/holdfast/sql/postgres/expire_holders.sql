-- expire_holders: cancel the overdue jobs whose keys somebody else takes.
-- params: now timestamptz, jobs json
-- returns: queue text (those in which the next job of a partition key may be claimed by this)
-- concurrency: the rows are locked and judged before (judge_keys), so nobody has started them.
--   The states are in a CASE to keep the planner off the indexes of certain states, which it would read as a whole.
-- locks: job rows that are locked already.
WITH expired AS (
    UPDATE /*schema.*/job AS job
    SET status = 'cancelled',
        finished_at = /*moment*/statement_timestamp(),
        last_attempt_error = json_build_object('type', 'Expired', 'message', 'not started by ' || (expires_at AT TIME ZONE 'UTC') || ' UTC')
    WHERE id = ANY (ARRAY(
        SELECT CAST(id AS /*id*/uuid) FROM json_array_elements_text(CAST(CAST(:jobs AS text) AS json)) AS sent (id)
    )) AND CASE WHEN status IN ('pending', 'blocked') THEN attempt = 0 END
    RETURNING job.queue, job.partition_key IS NOT NULL AND (NOT job.held OR job.limited) AS has_left
)
SELECT DISTINCT expired.queue FROM expired WHERE expired.has_left;

-- write_logs: keep what handlers wrote down, in their order.
-- params: now timestamptz, lines json
-- returns: none
-- concurrency: fenced by (id, lease_generation): a line may come after the end of its attempt, but not from somebody whose
--   job is another's by now, nor for a job that is gone.
-- locks: none.
INSERT INTO /*schema.*/job_log (job_id, lease_generation, logged_at, level, message, fields)
SELECT line.job_id, line.lease_generation,
       /*moment*/statement_timestamp() - age_ms * interval '1 millisecond', level, message, fields
FROM ROWS FROM (
    json_to_recordset(CAST(CAST(:lines AS text) AS json)) AS (
        job_id /*id*/uuid, lease_generation bigint, age_ms bigint, level text, message text, fields json
    )
) WITH ORDINALITY AS line (job_id, lease_generation, age_ms, level, message, fields, place)
JOIN /*schema.*/job AS job ON job.id = line.job_id AND job.lease_generation = line.lease_generation
ORDER BY place;

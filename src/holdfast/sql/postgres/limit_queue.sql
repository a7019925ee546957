-- limit_queue: from now on these are the limits of a queue; null means none.
-- params: now timestamptz, queue text, concurrency integer, rate float8, burst integer, key_concurrency integer, key_rate float8, key_burst integer, fair_by text
-- returns: none
-- concurrency: an upsert; whoever deals out shares of the limits holds this row's lock meanwhile.
--   Of concurrency keys those that the old rate made due later are due now, to be judged anew, and what was spent of the old
--   rate counts for no more than a whole burst of the new one.
-- locks: one queue row; limited_key and job rows, never waited for.
WITH clock AS MATERIALIZED (SELECT /*moment*/statement_timestamp() AS moment),
spent AS MATERIALIZED (
    SELECT state.concurrency_key, state.due_at FROM /*schema.*/limited_key AS state
    WHERE state.queue = CAST(:queue AS text)
    FOR NO KEY UPDATE SKIP LOCKED
),
later AS MATERIALIZED (
    SELECT job.id, job.concurrency_key, job.ready_at FROM /*schema.*/job AS job
    WHERE job.queue = CAST(:queue AS text) AND job.status = 'pending' AND NOT job.held AND job.crash_count = 0 AND NOT job.is_fair
      AND job.ready_at > (SELECT moment FROM clock) AND job.concurrency_key IS NOT NULL
      AND EXISTS (SELECT FROM spent WHERE spent.due_at > (SELECT moment FROM clock))
    UNION ALL
    SELECT job.id, job.concurrency_key, job.ready_at FROM /*schema.*/job AS job
    WHERE job.queue = CAST(:queue AS text) AND job.status = 'pending' AND NOT job.held AND job.crash_count = 0
      AND job.is_fair AND job.seq > 0
      AND job.ready_at > (SELECT moment FROM clock) AND job.concurrency_key IS NOT NULL
      AND EXISTS (SELECT FROM spent WHERE spent.due_at > (SELECT moment FROM clock))
    UNION ALL
    SELECT job.id, job.concurrency_key, job.ready_at FROM /*schema.*/job AS job
    WHERE job.queue = CAST(:queue AS text) AND job.status = 'pending' AND NOT job.held AND job.crash_count > 0
      AND job.ready_at > (SELECT moment FROM clock) AND job.concurrency_key IS NOT NULL
      AND EXISTS (SELECT FROM spent WHERE spent.due_at > (SELECT moment FROM clock))
),
brought AS (
    UPDATE /*schema.*/job AS job SET ready_at = (SELECT moment FROM clock)
    WHERE job.id = ANY (ARRAY(
        SELECT job.id FROM /*schema.*/job AS job
        WHERE job.id = ANY (ARRAY(
            SELECT later.id FROM later JOIN spent
                ON spent.concurrency_key = later.concurrency_key AND spent.due_at = later.ready_at
        )) AND CASE WHEN job.status = 'pending' THEN true END
        ORDER BY job.id
        FOR NO KEY UPDATE SKIP LOCKED
    ))
),
adjusted AS (
    UPDATE /*schema.*/limited_key AS state
    SET due_at = NULL,
        full_at = least(state.full_at, CASE WHEN coalesce(CAST(:key_burst AS integer) / CAST(:key_rate AS float8), 0) < 1e9 THEN
            moment + coalesce(CAST(:key_burst AS integer) / CAST(:key_rate AS float8), 0) * interval '1 second' END)
    FROM clock
    WHERE state.queue = CAST(:queue AS text) AND state.concurrency_key IN (SELECT spent.concurrency_key FROM spent)
)
INSERT INTO /*schema.*/queue AS known (
    name, concurrency, rate, burst, key_concurrency, key_rate, key_burst, fair_by, changed_at
)
SELECT CAST(:queue AS text), CAST(:concurrency AS integer), CAST(:rate AS float8), CAST(:burst AS integer),
       CAST(:key_concurrency AS integer), CAST(:key_rate AS float8), CAST(:key_burst AS integer), CAST(:fair_by AS text), moment
FROM clock
ON CONFLICT (name) DO UPDATE
SET concurrency = excluded.concurrency, rate = excluded.rate, burst = excluded.burst,
    key_concurrency = excluded.key_concurrency, key_rate = excluded.key_rate, key_burst = excluded.key_burst,
    fair_by = excluded.fair_by, changed_at = excluded.changed_at;

-- keep_stats: put new counts in the place of the old ones, sum up the throughput of hours, and drop what is too old of it.
-- params: now timestamptz, worker text, term bigint, counts json, services json, minutes_ms bigint, keep_ms bigint
-- returns: kept boolean (no row: it does not lead)
-- concurrency: fenced by (worker, term). The rows are written by the leader alone; one that still writes when its term has
--   just ended is overwritten by the next round.
--   An hour is summed up in its first minute; of those that are, only two days are looked at.
-- locks: the rows of stats and service, old rows of throughput.
WITH clock AS MATERIALIZED (
    SELECT /*moment*/statement_timestamp() AS moment
    FROM /*schema.*/leader AS office
    WHERE name = 'maintenance' AND worker_id = CAST(:worker AS text) AND term = CAST(:term AS bigint)
      AND leased_until > /*moment*/statement_timestamp()
),
counted AS MATERIALIZED (
    SELECT queue, type_name, state, jobs, is_capped, moment - waiting_ms * interval '1 millisecond' AS oldest_at, moment
    FROM clock, json_to_recordset(CAST(CAST(:counts AS text) AS json)) AS sent (
        queue text, type_name text, state text, jobs bigint, is_capped boolean, waiting_ms bigint
    )
),
gone AS (
    DELETE FROM /*schema.*/stats AS stats
    WHERE EXISTS (SELECT FROM clock) AND NOT EXISTS (
        SELECT FROM counted
        WHERE counted.queue = stats.queue AND counted.type_name = stats.type_name AND counted.state = stats.state
    )
),
forgotten AS (
    DELETE FROM /*schema.*/throughput AS throughput
    WHERE minute < (SELECT moment FROM clock) - CAST(:keep_ms AS bigint) * interval '1 millisecond'
),
summed_up AS (
    DELETE FROM /*schema.*/throughput AS throughput
    USING (
        SELECT date_trunc('hour', moment - CAST(:minutes_ms AS bigint) * interval '1 millisecond', 'UTC') AS until FROM clock
    ) AS hours
    WHERE minute < until AND minute >= until - interval '2 days'
      AND minute >= (SELECT moment FROM clock) - CAST(:keep_ms AS bigint) * interval '1 millisecond'
      AND minute <> date_trunc('hour', minute, 'UTC')
    RETURNING minute, queue, type_name, completed, failed
),
hourly AS (
    INSERT INTO /*schema.*/throughput AS known (minute, queue, type_name, completed, failed)
    SELECT date_trunc('hour', minute, 'UTC'), queue, type_name, sum(completed), sum(failed) FROM summed_up GROUP BY 1, 2, 3
    ON CONFLICT (minute, queue, type_name) DO UPDATE
    SET completed = known.completed + excluded.completed, failed = known.failed + excluded.failed
),
served AS (
    INSERT INTO /*schema.*/service (name, worker_id, succeeded_at)
    SELECT name, CAST(:worker AS text), moment - ago_ms * interval '1 millisecond'
    FROM clock, json_to_recordset(CAST(CAST(:services AS text) AS json)) AS sent (name text, ago_ms bigint)
    ORDER BY name
    ON CONFLICT (name) DO UPDATE SET worker_id = excluded.worker_id, succeeded_at = excluded.succeeded_at
),
written AS (
    INSERT INTO /*schema.*/stats (queue, type_name, state, jobs, is_capped, oldest_at, counted_at)
    SELECT queue, type_name, state, jobs, is_capped, oldest_at, moment FROM counted ORDER BY queue, type_name, state
    ON CONFLICT (queue, type_name, state) DO UPDATE
    SET jobs = excluded.jobs, is_capped = excluded.is_capped, oldest_at = excluded.oldest_at,
        counted_at = excluded.counted_at
)
SELECT true AS kept FROM clock;
